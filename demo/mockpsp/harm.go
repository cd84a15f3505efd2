package mockpsp

import (
	"fmt"
	"strings"
)

// harm is what makes a record hard to read in an answer, a lookup and a list. The ledger view, the webhook and the
// settlement file have the plain record: what happened is known, and a receiver that limits bodies is not called for
// days.
type harm int

const (
	harmless            harm = iota
	harmDuplicateMember      // the status twice, and the second time the opposite
	harmInvalidUTF8          // a text with a byte that is no UTF-8
	harmHugeMember           // a text of 1 MiB, which alone is longer than most readers take
	harmLargeMetadata        // metadata of 27 KiB: less than 40 such records are longer than 1 MiB
	harmUnknownStatus        // a status that no document names; the money has moved
)

const (
	hugeMember    = 1 << 20
	largeMetadata = 27 << 10
)

// harmed renders e with the harm of the record's fault.
func (r *record) harmed(e entry) []byte {
	does := behaviours[r.Fault]
	if does.harm == harmUnknownStatus && r.succeeded() {
		e.Status = "captured"
	}
	plain := Render(&e)
	switch does.harm {
	case harmless, harmUnknownStatus:
		return plain
	case harmDuplicateMember:
		return withMembers(plain, `"status":"`+statusDeclined+`","declineCode":"insufficient_funds"`)
	case harmInvalidUTF8:
		return withMembers(plain, "\"description\":\"caf\xe9\"")
	case harmHugeMember:
		return withMembers(plain, fmt.Sprintf(`"note":%q`, strings.Repeat("x", hugeMember)))
	case harmLargeMetadata:
		return withMembers(plain, fmt.Sprintf(`"metadata":{"note":%q}`, strings.Repeat("x", largeMetadata)))
	}
	panic("mockpsp: unknown harm")
}

// withMembers adds members behind those of a JSON object, whatever they do to it.
func withMembers(object []byte, members string) []byte {
	return append(append(object[:len(object)-1], ','), members+"}"...)
}
