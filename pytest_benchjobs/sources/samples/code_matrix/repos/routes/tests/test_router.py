import unittest

from routes import Router


class RouterTest(unittest.TestCase):
    def test_parameters(self):
        router = Router()
        router.add("/users/<name>", "user")
        self.assertEqual(router.match("/users/ada"), ("user", {"name": "ada"}))
        self.assertEqual(router.match("/users/ada/"), ("user", {"name": "ada"}))
        self.assertIsNone(router.match("/users/"))

    def test_the_rest(self):
        router = Router()
        router.add("/files/<path:rest>", "file")
        self.assertEqual(router.match("/files/a/b.txt?raw=1"), ("file", {"rest": "a/b.txt"}))


if __name__ == "__main__":
    unittest.main()
