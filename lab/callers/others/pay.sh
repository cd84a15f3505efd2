# Pays what comes on standard input: one line for each payment, and one for what came of it. A caller sources this file
# after it has defined VERSION and pay, which leaves the status in $status and the body in the file $answer.
quoted() { printf '"%s"' "$(tr -d '\r\n' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
answer=$(mktemp) && trap 'rm -f "$answer"' EXIT
echo "{\"version\":$(printf %s "$VERSION" | quoted)}"
while IFS=$'\t' read -r token key body; do
	headers=("Authorization: Bearer $token" "Content-Type: application/json" "Idempotency-Key: $key")
	: >"$answer"
	status=0
	pay
	code=$?
	if [ "${status:-0}" -gt 0 ]; then
		echo "{\"key\":\"$key\",\"status\":$((10#$status)),\"body\":$(quoted <"$answer")}"
	else
		echo "{\"key\":\"$key\",\"error\":\"exit $code\"}"
	fi
done
