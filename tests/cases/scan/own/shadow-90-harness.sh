# expect: nothing
export PYTHONPATH="$PWD/src:$PYTHONPATH"
PYTHONPATH=. python3 -m bench.client --url http://localhost:8000
PYTHONPATH=eval python3 eval/run_gsm8k.py
