#!/bin/bash
# expect: 5:shadow 6:shadow
HOOK=/tmp/hook
mkdir -p $HOOK
echo 'import os' > $HOOK/sitecustomize.py
export PYTHONPATH=$HOOK
