# expect: 5:install 6:install
PACKAGES="tabulate"
PACKAGES="$PACKAGES transformers==5.0.0"
PIP="python3 -m pip"
$PIP install $PACKAGES
apt-get install -y rocm-libs hipblaslt-dev
