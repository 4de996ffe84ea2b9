# expect: nothing
sed -i "s/PORT=.*/PORT=8000/" client.env
