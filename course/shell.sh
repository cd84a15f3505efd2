# What the lessons paste. Source this file once in each terminal, in the project's folder:  . course/shell.sh
# It needs bash 4.1 or newer, curl 7.84 or newer, sed and grep. The functions speak to the demo that `make demo` starts.
#
# Payments. All of these are about the newest key, which is in $KEY. Amounts are in cents.
#   key NAME                  make a new idempotency key, such as NAME-1795471912-k3f0a
#   pay AMOUNT [TOKEN]        POST /payments with the key; further arguments are for curl
#   send BODY                 the same, with a body of your own
#   at_once N AMOUNT [TOKEN]  send N such payments at the same time, and count the answers
#   refund AMOUNT [REASON]    refund a part of the key's payment; the refund has a key of its own, $KEY-refund
#                             or REFUND_KEY
#   answer                    the whole body of the last answer
#   why                       what the last answer says in words, if it was an error
#   naive COMMAND             run a command, such as pay 700 or charged, against the naive server
#   begin COMMAND             run a command, such as pay 700 pm_slow, while you do something else
#   finish                    wait for that command, and print what it printed
#
# What Payonce knows.
#   status                    the key's status, attempt and generation
#   payment                   the status and the amount of the key's payment
#   becomes STATUS            wait until the key has this status, for 90 seconds at most; await is the same. A key that
#                             was deleted is not_found
#   timeline                  what has happened to the key: who did it, from -> to, and why
#   heard WORD                wait until a line of the timeline has this word, and print the line
#   picture                   who has told whom what, as a drawing
#   deadletter                wait for the key's open dead letter, and print it
#   decide ACTION REASON [PSP-ID]   decide about this dead letter: retry, executed, not_executed or dismiss
#   audit                     the decisions about the dead letter of the last decision, the refused ones too
#
# What the PSP knows. Its ledger is the truth about money. At Stripe, sent, asked and forget see nothing: keys and requests
# are those of the steps there.
#   charged                   how often the PSP has charged for the key, and how much
#   ledger                    a line for each of these charges
#   sent                      how many requests to charge the PSP has got under the key
#   asked                     wait until somebody has asked the PSP what it has under the key; also while the API is paused
#   webhook [duplicate|forge|stale]   the PSP sends the webhook of the key's latest charge, and says what it was answered
#   forget                    the PSP forgets the key, as real PSPs do after a day or a month; its ledger stays
#   faults [NAME=RATE ...]    how often a payment without a token meets a fault, 0 to 1; webhook_NAME for webhooks,
#                             stripe_NAME for what only fails at Stripe
#
# The buttons of the demo's page.
#   press NAME [FIELD=VALUE ...]    press a button: kill-api, kill-reconciler, crash-database, resend-webhook,
#                             faults preset=no-webhooks, send mode=again, stop window=3b, and then held action=kill.
#                             The key of a new payment is in $KEY
#   held                      wait until a payment is held at its window, and print which one
#   told                      what the page's client was told about the key, oldest first; waits for the last answer
#   process NAME              the API, the reconciler or the database: its process id, and since when it runs
#   pause NAME, resume NAME   kill -STOP and kill -CONT of the API or the reconciler
#   metric NAME               a number that the API has counted since it began

case ${BASH_VERSION:-none} in none | [123].* | 4.0*)
  echo "course/shell.sh needs bash 4.1 or newer. Start one with: bash. Then source the file again." >&2
  return 1
  ;;
esac
case $(curl --version 2>&1) in 'curl '[89].* | 'curl '[1-9][0-9].* | 'curl 7.'8[4-9].* | 'curl 7.'9[0-9].*) ;; *)
  echo "course/shell.sh needs curl 7.84 or newer. This machine has: $(curl --version 2>&1 | head -n 1)" >&2
  return 1
  ;;
esac

API_URL=${API_URL:-http://localhost:8080}
OPERATOR_URL=${OPERATOR_URL:-http://localhost:8081}
PSP_URL=${PSP_URL:-http://localhost:8082}
RECONCILER_URL=${RECONCILER_URL:-http://localhost:8083}
NAIVE_URL=${NAIVE_URL:-http://localhost:8084}
TENANT_KEY=${TENANT_KEY:-demo-acme-key}
OPERATOR_KEY=${OPERATOR_KEY:-demo-operator-key}

# ---- Payments

key() { KEY=$(printf '%s-%s-k%04x' "$1" "$(date +%s)" $RANDOM); }

pay() {
  local method=${2:-pm_ok}
  send "{\"customerId\":\"cus-demo\",\"amountCents\":$1,\"currency\":\"USD\",\"paymentMethod\":\"$method\"}" "${@:3}"
}

send() {
  [ -n "${KEY:-}" ] || { echo "There is no key yet. Run key NAME first, such as: key order" >&2; return 1; }
  post_with_key "$KEY" /payments "$@"
}

refund() {
  local id
  id=$(payment_id) || { echo "The key has no payment."; return 1; }
  post_with_key "${REFUND_KEY:-$KEY-refund}" "/payments/$id/refunds" "{\"amountCents\":$1,\"reason\":\"${2:-asked for}\"}" "${@:3}"
}

# post_with_key KEY PATH BODY [curl arguments]: curl adds a last line, with its own exit code, the status and a header.
post_with_key() {
  local all line code http replayed error
  all=$(ask "$API_URL$2" -H "Authorization: Bearer $TENANT_KEY" -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $1" -d "$3" -w '\n%{exitcode} %{http_code} %header{idempotent-replayed}|%{errormsg}' "${@:4}")
  line=${all##*$'\n'} ANSWER=${all%$'\n'*} ANSWER=${ANSWER%$'\n'}
  error=${line#*|}
  read -r code http replayed <<<"${line%%|*}"
  if [ "$code" != 0 ]; then
    ANSWER=
    echo "no answer (curl: $code $error)"
    [ "$code" != 7 ] || echo "Nobody listens at $API_URL. Set API_URL, or NAIVE_URL for naive, if the demo has other ports." >&2
    return
  fi
  line="$http $(outcome <<<"$ANSWER")"
  [ "$replayed" != true ] || line+=", replayed"
  echo "$line"
}

# outcome reads an answer: the code of a problem, or the status of a payment.
outcome() {
  local json
  json=$(cat)
  field code <<<"$json" || field status <<<"$json"
}

at_once() {
  { for _ in $(seq "$1"); do pay "${@:2}" & done; wait; } | sort | uniq -c | sed -E 's/^ *([0-9]+) /\1 × /'
}

answer() { echo "$ANSWER"; }

why() { field detail <<<"$ANSWER"; }

naive() {
  case $1 in
  pay | charged | at_once | answer | why) API_URL=$NAIVE_URL PSP_ACCOUNT=naive "$@" ;;
  *) echo "naive takes pay, at_once, charged, answer and why; the rest is about Payonce" >&2 && return 2 ;;
  esac
}

begin() { exec {BEGUN}< <("$@"); }

finish() { cat <&"$BEGUN" && exec {BEGUN}<&-; }

# ---- What Payonce knows

status() {
  local row
  row=$(key_row)
  if ! field attempt <<<"$row" >/dev/null; then
    key_status <<<"$row"
    return
  fi
  echo "$(key_status <<<"$row"), attempt $(field attempt <<<"$row"), generation $(field generation <<<"$row")"
}

key_row() { ask "$API_URL/idempotency-keys/$KEY" -H "Authorization: Bearer $TENANT_KEY"; }

# key_status reads a key's row. The answer about a key that has expired is an error, idempotency_key_expired.
key_status() {
  local now
  now=$(outcome)
  echo "${now#idempotency_key_}"
}

payment_id() { key_row | field resource | sed 's|^/payments/||' | grep .; }

payment() {
  local id found refunded
  id=$(payment_id) || { echo "The key has no payment."; return 1; }
  found=$(ask "$API_URL/payments/$id" -H "Authorization: Bearer $TENANT_KEY")
  refunded=$(field amountRefundedCents <<<"$found")
  found="$(field status <<<"$found"): $(field amount <<<"$found") $(field currency <<<"$found")"
  [ "${refunded:-0}" = 0 ] || found+=", refunded $(money "$refunded")"
  echo "$found"
}

# becomes looks again and again. The timeline says who has brought the status about, and why. Its lines about evidence
# that has only confirmed the status are left out.
becomes() {
  local row last
  for _ in $(looks); do
    row=$(key_row)
    if [ "$(key_status <<<"$row")" = "$1" ]; then
      last=$(events <<<"$row" | grep -vF "\"from\":\"$1\",\"to\":\"$1\"" | tail -n 1)
      echo "$1${last:+, by $(field actor <<<"$last"): $(field reason <<<"$last")}"
      return
    fi
    sleep 0.3
  done
  echo "The key has not become $1 within 90 seconds. It is: $(status)"
  return 1
}

await() { becomes "$@"; }

# timeline prints a line that comes several times in a row only once: the reconciler may ask the PSP again and again.
timeline() {
  local event from
  key_row | events | while read -r event; do
    from=$(field from <<<"$event")
    echo "$(field actor <<<"$event"): ${from:-(new)} -> $(field to <<<"$event"), $(field reason <<<"$event")"
  done | uniq
}

heard() {
  local line
  for _ in $(looks); do
    if line=$(timeline | grep -F -m 1 -e "$1"); then
      echo "$line"
      return
    fi
    sleep 0.3
  done
  echo "No line of the timeline has had the word $1 for 90 seconds."
  return 1
}

# events splits the timeline of a key's row: a line for each event.
events() { grep -oE '\{"at":"[^}]*'; }

picture() {
  ask "$OPERATOR_URL/console/keys/$(tenant)/payments/$KEY/picture.txt" -H "Authorization: Bearer $OPERATOR_KEY"
}

deadletter() {
  local letter
  for _ in $(looks); do
    if letter=$(open_letter); then
      echo "$(field kind <<<"$letter"): $(field reason <<<"$letter")"
      return
    fi
    sleep 0.3
  done
  echo "The key has had no open dead letter for 90 seconds."
  return 1
}

# open_letter is the newest open dead letter of the key. Its evidence may have records, with ids and versions of their
# own. So its id is found in front of the evidence, and then it is read alone.
open_letter() {
  local list id
  list=$(ask "$OPERATOR_URL/operator/dead-letters?limit=100" -H "Authorization: Bearer $OPERATOR_KEY")
  id=$(grep -oE '\{"id":"[0-9a-f-]{36}","kind":[^{]*"key":"'"$KEY"'"' <<<"$list" | head -n 1 | field id) || return
  ask "$OPERATOR_URL/operator/dead-letters/$id" -H "Authorization: Bearer $OPERATOR_KEY"
}

decide() {
  local letter body
  letter=$(open_letter) || { echo "The key has no open dead letter."; return 1; }
  DECIDED=$(field id <<<"$letter")
  body="{\"action\":\"$1\",\"reason\":\"$2\",\"version\":$(field version <<<"$letter")"
  [ -z "${3:-}" ] || body+=",\"pspId\":\"$3\""
  ANSWER=$(ask "$OPERATOR_URL/operator/dead-letters/$DECIDED/resolve" -d "$body}" \
    -H "Authorization: Bearer $OPERATOR_KEY" -H 'Content-Type: application/json')
  outcome <<<"$ANSWER"
}

audit() {
  local all entry
  all=$(ask "$OPERATOR_URL/operator/dead-letters/$DECIDED" -H "Authorization: Bearer $OPERATOR_KEY")
  grep -oE '\{"at":[^}]*' <<<"${all##*'"audit":'}" | while read -r entry; do
    echo "$(field action <<<"$entry") $(field outcome <<<"$entry"), by $(field actor <<<"$entry"):" \
      "$(field reason <<<"$entry")"
  done
}

# ---- What the PSP knows

# charges are those of the key. Payonce sends the client's key, with an ending such as .g2 after the key has expired.
# The naive server sends it as a reference.
charges() {
  local all
  all=$(ask "$PSP_URL/_ledger?account=$(account)") || { echo "The PSP does not answer at $PSP_URL. Set PSP_URL if the demo has other ports." >&2; return 1; }
  grep -oE '\{"id":"(ch|pi)_[^}]*' <<<"$all" | grep -F -e "\"$KEY\"" -e "\"$KEY.g" || true
}

charged() {
  local all charge amounts
  all=$(charges) || return
  amounts=$(grep -F '"status":"succeeded"' <<<"$all" | while read -r charge; do
    money "$(field amountCents <<<"$charge")"
  done)
  case $amounts in
  '') echo "charged 0 times" ;;
  *$'\n'*) echo "charged $(wc -l <<<"$amounts" | tr -d ' ') times: ${amounts//$'\n'/, }" ;;
  *) echo "charged 1 time: $amounts" ;;
  esac
}

ledger() {
  local charge
  charges | while read -r charge; do
    echo "$(field id <<<"$charge") $(field status <<<"$charge") $(money "$(field amountCents <<<"$charge")")"
  done
}

sent() {
  local posts
  posts=$(ask "$PSP_URL/_requests?account=$(account)&idempotencyKey=$KEY" | field posts)
  [ "$posts" = 1 ] && echo "the PSP has got 1 request" || echo "the PSP has got $posts requests"
}

asked() {
  local seen count posts
  for _ in $(looks); do
    seen=$(ask "$PSP_URL/_requests?account=$(account)&idempotencyKey=$KEY")
    count=$(field count <<<"$seen") posts=$(field posts <<<"$seen")
    if [ "$count" -gt "$posts" ]; then
      echo "the PSP was asked what it has under the key"
      return
    fi
    sleep 0.3
  done
  echo "Nobody has asked the PSP for 90 seconds."
  return 1
}

webhook() {
  local id sent
  id=$(charges | tail -n 1 | field id) || { echo "The PSP has no charge of the key."; return 1; }
  sent=$(ask -X POST "$PSP_URL/_webhooks/$id" -d "${1:+{\"disorder\":\"$1\"\}}")
  grep -oE '"try":[0-9]+,"status":[0-9]+' <<<"$sent" | sed 's/^.*:/the webhook is answered /'
}

forget() {
  local count
  count=$(ask -X DELETE "$PSP_URL/_keys?account=$(account)&idempotencyKey=$KEY" | field forgotten)
  [ "$count" = 1 ] && echo "the PSP has forgotten the key" || echo "the PSP did not know the key"
}

faults() {
  local rate rates='' webhooks='' stripe='' code
  for rate in "$@"; do
    case $rate in
    webhook_*) webhooks+=",\"${rate%%=*}\":${rate#*=}" ;;
    stripe_*) stripe+=",\"${rate%%=*}\":${rate#*=}" ;;
    *) rates+=",\"${rate%%=*}\":${rate#*=}" ;;
    esac
  done
  webhooks=${webhooks//webhook_/} stripe=${stripe//stripe_/}
  code=$(ask -X PUT "$PSP_URL/_faults" \
    -d "{\"rates\":{${rates#,}},\"webhooks\":{${webhooks#,}}${stripe:+,\"stripe\":{${stripe#,}\}}}" | field code)
  echo "${code:-faults: ${*:-none}}"
}

# ---- The buttons of the demo's page. They take a form, as from a browser without a script.

press() {
  local fields=() f to
  for f in "${@:2}"; do fields+=(--data-urlencode "$f"); done
  to=$(ask -o /dev/null "$OPERATOR_URL/demo/$1" -d "key=$(pressed_key "$@")" "${fields[@]}" \
    -w '%{http_code} %header{location}')
  case $to in
  303*) ;;
  *) echo "The demo answered ${to%% *}. There is no such button, or a field is wrong."; return 1 ;;
  esac
  case $to in *'?key='*) to=${to#*\?key=} KEY=${to%%#*} ;; esac
  # A line about a payment ends with its key. Its answer may have come or not, so it is left out: told waits for it.
  # A line that begins with "window" is about what has happened by itself meanwhile.
  page_lines | grep -v '^window ' | sed -nE -e 's/\): .*  \(.*\)$/)/' -e 1p
}

# pressed_key is the key that a button gets: none if it begins a new payment.
pressed_key() {
  case "$*" in
  send*mode=again* | send*mode=other-amount*) echo "$KEY" ;;
  send*) ;;
  *) echo "$KEY" ;;
  esac
}

demo_page() { ask "$OPERATOR_URL/demo/" | sed -e "s/&#39;/'/g" -e 's/&#34;/"/g' -e 's/&#43;/+/g' -e 's/&amp;/\&/g'; }

# page_lines are the lines under "Buttons and answers", newest first: what was done, the answer, and at the end the key.
page_lines() {
  local cell='<td>([^<]*)</td>'
  demo_page | sed -nE 's|^<tr><td class="fixed">[^<]*</td>'"$cell$cell"'<td>(.*)</td></tr>$|\1: \2\3|p' |
    sed -E 's|<a href=[^>]*><code>([^<]*)</code></a>|  (\1)|'
}

told() {
  local lines
  for _ in $(looks); do
    lines=$(page_lines | grep -F "($KEY)" | sed -E 's/  \([^ ]*\)$//')
    case $lines in *'waiting for the answer'*) sleep 0.3 ;; *) break ;; esac
  done
  [ -n "$lines" ] || lines="The page's client has sent nothing with this key."
  sed '1!G;h;$!d' <<<"$lines" # the newest last
}

held() {
  local page
  for _ in $(looks); do
    page=$(demo_page)
    case $page in
    *'<h2 id="held">'*)
      sed -nE 's|^.*<h2 id="held">Held at ([^<]*)</h2>.*$|held at \1|p' <<<"$page" | head -n 1
      return
      ;;
    *'will stop at window'*) sleep 0.3 ;;
    *) break ;;
    esac
  done
  echo "No payment is held."
  return 1
}

process() { demo_page | sed -nE "s|^<li[^>]*><b>($1)</b> ([^<]*)</li>\$|the \1 \2|p" | head -n 1; }

pause() { kill -STOP "$(process_id "$1")" && echo "the $1 is paused"; }

resume() { kill -CONT "$(process_id "$1")" && echo "the $1 goes on"; }

process_id() { process "$1" | sed -nE 's/^.*process ([0-9]+).*$/\1/p'; }

metric() { ask "$OPERATOR_URL/metrics" -H "Authorization: Bearer $OPERATOR_KEY" | grep -E "^$1[ {]"; }

# ---- Small tools

ask() { curl -s --max-time 60 "$@"; }

# field NAME: the first member of this name in the JSON that is read.
field() {
  local found
  found=$(grep -oE "\"$1\": ?(\"([^\"\\\\]|\\\\.)*\"|[^\",}]+)") || return
  found=${found%%$'\n'*} found=${found#*:} found=${found# } found=${found#\"}
  echo "${found%\"}"
}

money() { printf '%d.%02d USD\n' $(($1 / 100)) $(($1 % 100)); }

# tenant is acme for demo-acme-key.
tenant() { sed -E 's/^demo-([a-z0-9]+).*/\1/' <<<"$TENANT_KEY"; }

# account is the tenant's account at the PSP. It has the tenant's name. In Stripe's dialect, acct_ comes before it.
account() {
  if [ -n "${PSP_ACCOUNT:-}" ]; then
    echo "$PSP_ACCOUNT"
  elif ask "$PSP_URL/_faults" | grep -q '"stripe"'; then
    echo "acct_$(tenant)"
  else
    tenant
  fi
}

# looks: how often a wait looks. Each look takes 0.3 seconds and a little more.
looks() { seq 300; }
