import unittest

from sheets import dumps, loads


class SheetsTest(unittest.TestCase):
    def test_plain_fields(self):
        self.assertEqual(dumps([["a", "b"], ["1", ""]]), "a,b\r\n1,\r\n")
        self.assertEqual(loads("a,b\n1,\n"), [["a", "b"], ["1", ""]])

    def test_a_comma_is_quoted(self):
        self.assertEqual(dumps([["a,b", "c"]]), '"a,b",c\r\n')
        self.assertEqual(loads('"a,b",c\r\n'), [["a,b", "c"]])

    def test_a_quote_without_an_end(self):
        with self.assertRaises(ValueError):
            loads('"a')


if __name__ == "__main__":
    unittest.main()
