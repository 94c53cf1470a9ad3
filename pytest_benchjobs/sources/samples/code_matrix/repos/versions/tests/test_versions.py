import unittest

from versions import fits, newest, parse


class VersionsTest(unittest.TestCase):
    def test_numbers_are_compared_as_numbers(self):
        self.assertLess(parse("1.9.0"), parse("1.10.0"))
        self.assertEqual(str(parse("v1.2.3-rc.1+b5")), "1.2.3-rc.1+b5")

    def test_a_release_comes_after_its_pre_release(self):
        self.assertLess(parse("1.0.0-alpha"), parse("1.0.0"))

    def test_ranges(self):
        self.assertTrue(fits("1.4.0", "^1.2"))
        self.assertFalse(fits("2.0.0", "^1.2"))
        self.assertEqual(newest(["1.2.0", "1.3.1", "2.0.0"], "^1.2"), "1.3.1")


if __name__ == "__main__":
    unittest.main()
