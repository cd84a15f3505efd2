# curl that is told to repeat what is lost, 429 and 5xx, three times. The answer goes to a file: curl cannot cut back
# /dev/null before a retry, and gives up.
VERSION=$(curl --version | awk 'NR == 1 { print $2 }')
pay() {
	# An answer that is taken for an error is repeated, whatever its status is.
	local again=()
	[ -z "$SET" ] || again=(--retry 5 --fail-with-body)
	status=$(curl -s -o "$answer" -w '%{http_code}' --retry 3 --retry-all-errors "${again[@]}" \
		"${headers[@]/#/-H}" --data-raw "$body" "$URL")
}
. ./pay.sh
