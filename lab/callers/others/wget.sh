# wget, which sends what is lost up to twenty times.
VERSION=$(wget --version | awk 'NR == 1 { print $3 }')
pay() {
	wget -nv -S -O "$answer" --content-on-error "${headers[@]/#/--header=}" --post-data="$body" "$URL" 2>"$answer.log"
	local code=$?
	status=$(awk '$1 ~ /^HTTP\// { last = $2 } END { print last }' "$answer.log")
	rm -f "$answer.log"
	return $code
}
. ./pay.sh
