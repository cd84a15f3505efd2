#!/usr/bin/env bash
# A control total that is joined text: @ach/ach 1.1.0 (npm), which writes US bank files (NACHA).
#
# Guess: the entry hash in the two control records of a file is the sum of the eight-digit routing numbers of its
#   entries, in the last ten digits. So the format says, and the bank refuses a file whose hash differs.
# Seen: create().ppd().credit() adds the routing numbers as text. For one entry the hash is right. For two it is the
#   last ten digits of the two numbers, one after the other: 6232227162 instead of 0064454324. Every file with more
#   than one entry is wrong, and no error says so. The package's own function calculate() adds numbers and is right,
#   but the chain of calls that the README shows does not use it. A test with one payment does not see it.
#   The README's from(object), which should write the file, raises a ReferenceError: its formatter is used here.
# What follows: make the control totals of a file that moves money yourself, and compare them before it is sent.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact @ach/ach@1.1.0 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >file.js <<'JS'
// The file as the README of the package makes it: some refunds to accounts at one bank.
const ach = require('@ach/ach')()
const count = Number(process.argv[2])
const to = {}
for (let i = 0; i < count; i++) {
  to['customer' + i] = { name: 'Customer ' + i, account: { num: String(1000 + i), type: 'C' }, routing: '322271627' }
}
let file = ach.create({
  from: { name: 'Example Shop', fein: '123456789' }, for: { name: 'Example Bank', routing: '322271627' }, to,
}).ppd({ effectiveDate: '261130', description: 'Refunds' })
for (let i = 0; i < count; i++) file = file.credit({ to: 'customer' + i, amount: 1000 + i })
// from(object) is in the README, too, and raises "objectable is not defined". The formatter takes the object as it is.
const formatter = ach.getFormatter('ach')
formatter.pipe(process.stdout)
formatter.end(file.object)
JS

seen() { # how many entries: the hash of the batch's control record, and that of the file's
	node file.js "$1" | awk '/^8/ { print "batch", substr($0, 11, 10) } /^9000/ { print "file", substr($0, 22, 10) }'
}
expect() { # how many entries, the hash
	local got
	got=$(seen "$1")
	printf '%s entries:\n%s\n' "$1" "$got"
	[[ $got == "batch $2"$'\n'"file $2" ]] || { echo "this is not what was seen: $2"; exit 1; }
}
expect 1 0032227162
expect 2 6232227162 # the sum is 0064454324
echo "as it was seen: the hash of two entries is not the sum"
