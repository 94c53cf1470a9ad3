import unittest

from buckets import Bucket, Limiter


class BucketTest(unittest.TestCase):
    def test_it_is_full_at_first_and_refills(self):
        bucket = Bucket(capacity=2, rate=1)
        self.assertEqual([bucket.take(now=0.0) for _ in range(3)], [True, True, False])
        self.assertTrue(bucket.take(now=1.0))
        self.assertEqual(bucket.tokens(now=10.0), 2)

    def test_keys_have_buckets_of_their_own(self):
        limiter = Limiter(capacity=1, rate=1)
        self.assertTrue(limiter.allow("a", now=0.0))
        self.assertTrue(limiter.allow("b", now=0.0))
        self.assertFalse(limiter.allow("a", now=0.5))


if __name__ == "__main__":
    unittest.main()
