#!/bin/sh
sed -i 's/return .*/return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")/; 1a import re' slugs/slug.py
python3 -m unittest
