#!/bin/sh
sed -i 's/title.lower()/title.lower().replace("  ", " ")/' slugs/slug.py
