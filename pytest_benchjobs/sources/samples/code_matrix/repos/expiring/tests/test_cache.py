import unittest

from expiring import Cache


class CacheTest(unittest.TestCase):
    def test_it_keeps_and_forgets(self):
        cache = Cache(size=2, ttl=10)
        cache.put("a", 1, now=0)
        self.assertEqual(cache.get("a", now=5), 1)
        self.assertIsNone(cache.get("a", now=11))

    def test_the_least_recently_used_makes_room(self):
        cache = Cache(size=2, ttl=10)
        cache.put("a", 1, now=0)
        cache.put("b", 2, now=1)
        cache.get("a", now=2)
        cache.put("c", 3, now=3)
        self.assertEqual(cache.keys(now=3), ["a", "c"])


if __name__ == "__main__":
    unittest.main()
