#!/usr/bin/env bash
# Keys read as the draft says: structured-headers 2.1.0, structured-field-values 2.0.4,
# @svta/cml-structured-field-values 1.1.6 (npm), and github.com/dunglas/httpsfv v1.1.2 (Go), readers of RFC 8941.
#
# Guess: the draft makes Idempotency-Key a structured string, "in quotation marks". Clients send a bare UUID. A reader
#   refuses all bare UUIDs, so the first test finds it.
# Seen: a bare UUID that begins with a letter (6 of 16) is a token, which is a valid value. One that begins with a digit
#   is a number with something behind it, and an error. So a server that reads the header with one of these packages
#   works for three eighths of the bare keys and answers 400 to the rest, and a test with one fixed key sees one half.
#   And a bare key of digits is a number: 00123, 0123 and 123 are one key, so three orders become one.
# What follows: take the text of the header as the key, with the quotation marks away if there are any; a reader of
#   structured fields is for clients that are known to send them. Test with keys that begin with a digit and a letter.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >npm.log
npm install --ignore-scripts --no-audit --no-fund --save-exact structured-headers@2.1.0 structured-field-values@2.0.4 \
	@svta/cml-structured-field-values@1.1.6 >>npm.log 2>&1 || { cat npm.log; exit 1; }

cat >read.mjs <<'JS'
import { parseItem } from 'structured-headers'
import { decodeItem } from 'structured-field-values'
import { decodeSfItem } from '@svta/cml-structured-field-values'
const readers = {
  'structured-headers': (text) => parseItem(text)[0],
  'structured-field-values': (text) => decodeItem(text).value,
  '@svta/cml-structured-field-values': (text) => decodeSfItem(text).value,
}
const kind = (value) => typeof value === 'object' || typeof value === 'symbol' ? 'token' : typeof value
for (const [name, read] of Object.entries(readers)) {
  const taken = []
  for (const first of '0123456789abcdef') {
    try {
      taken.push(first + ':' + kind(read(first + 'e03978e-40d5-43e8-bc93-6894a57f9324')))
    } catch {}
  }
  console.log(name, 'takes', taken.join(' '))
  console.log(name, 'quoted:', kind(read('"8e03978e-40d5-43e8-bc93-6894a57f9324"')),
    ' digits:', ['00123', '0123', '123'].map((text) => read(text)).join(' '))
}
JS
go mod init example.test/keys 2>go.log
cat >main.go <<'GO'
package main

import (
	"fmt"

	"github.com/dunglas/httpsfv"
)

func main() {
	fmt.Print("httpsfv takes")
	for _, first := range "0123456789abcdef" {
		item, err := httpsfv.UnmarshalItem([]string{string(first) + "e03978e-40d5-43e8-bc93-6894a57f9324"})
		if err == nil {
			fmt.Printf(" %c:%T", first, item.Value)
		}
	}
	fmt.Println()
	for _, text := range []string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "00123", "0123", "123"} {
		item, err := httpsfv.UnmarshalItem([]string{text})
		fmt.Printf("httpsfv %s: %T %v %v\n", text, item.Value, item.Value, err)
	}
}
GO
go get github.com/dunglas/httpsfv@v1.1.2 >>go.log 2>&1 || { cat go.log; exit 1; }

{ node read.mjs && go run .; } | tee seen
diff seen - <<'SEEN' || { echo "this is not what was seen"; exit 1; }
structured-headers takes a:token b:token c:token d:token e:token f:token
structured-headers quoted: string  digits: 123 123 123
structured-field-values takes a:token b:token c:token d:token e:token f:token
structured-field-values quoted: string  digits: 123 123 123
@svta/cml-structured-field-values takes a:token b:token c:token d:token e:token f:token
@svta/cml-structured-field-values quoted: string  digits: 123 123 123
httpsfv takes a:httpsfv.Token b:httpsfv.Token c:httpsfv.Token d:httpsfv.Token e:httpsfv.Token f:httpsfv.Token
httpsfv "8e03978e-40d5-43e8-bc93-6894a57f9324": string 8e03978e-40d5-43e8-bc93-6894a57f9324 <nil>
httpsfv 00123: int64 123 <nil>
httpsfv 0123: int64 123 <nil>
httpsfv 123: int64 123 <nil>
SEEN
echo "as it was seen: a bare UUID is a key if it begins with a letter"
