#!/usr/bin/env bash
# Salaries that are to be paid on the first of January 2030: aba-generator 2.1.0 (npm), which writes the file of payments
# that Australian banks take.
#
# Guess: the header has the date that was given, and the time, if one was given. The README allows a Date, a number or a
#   text for both; a text for the time is HHmm.
# Seen: if there is a time, and the date is no text, the date is made from the time. The text "0930" is the year 930 for a
#   Date, so 30 November 2026 becomes 010130, the first of January (in UTC), whose year a bank reads as 2030. At "1745",
#   it is 010145. If the time is a Date of the day before, the payments are of the day before. The time in the file is
#   right, and nothing is raised.
# What follows: give the date as DDMMYY whenever there is a time, and read the header of each file before it is sent.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact aba-generator@2.1.0 >>npm.log 2>&1 ||
	{ cat npm.log; exit 1; }

cat >header.js <<'JS'
const ABA = require('aba-generator')
const payment = {
  bsb: '802985', transactionCode: ABA.PAY, account: '87654321', amount: 1200.5, accountTitle: 'A Person',
  reference: 'salary', traceBsb: '802986', traceAccount: '11223344', remitter: 'A Shop',
}
const day = new Date(2026, 10, 30, 9, 30)
const before = new Date(2026, 10, 29, 9, 30)
const given = {
  'a Date': { date: day },
  'a Date, and a time as text': { date: day, time: '0930' },
  'a Date, and a later time as text': { date: day, time: '1745' },
  'a number, and a time as text': { date: day.getTime(), time: '0930' },
  'nothing, and a time as text': { time: '0930' },
  'a Date, and a time of the day before': { date: day, time: before },
  'a text, and a time as text': { date: '301126', time: '0930' },
}
for (const [what, times] of Object.entries(given)) {
  const file = new ABA({ header: { bank: 'CBA', user: 'A Shop', userNumber: 301500, description: 'salaries', ...times } })
  const header = file.generate([payment]).split('\r\n')[0]
  console.log(`${what}: date ${header.slice(74, 80)}, time ${header.slice(80, 84).trim() || 'none'}`)
}
JS
TZ=UTC node header.js | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
a Date: date 301126, time none
a Date, and a time as text: date 010130, time 0930
a Date, and a later time as text: date 010145, time 1745
a number, and a time as text: date 010130, time 0930
nothing, and a time as text: date 010130, time 0930
a Date, and a time of the day before: date 291126, time 0930
a text, and a time as text: date 301126, time 0930
SEEN
echo "as it was seen: a time of day decides the date"
