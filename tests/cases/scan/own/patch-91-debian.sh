#!/bin/sh
# expect: nothing
# A packager's helper.
set -e
for p in $(cat debian/patches/series); do
    patch -p1 < "debian/patches/$p"
done
