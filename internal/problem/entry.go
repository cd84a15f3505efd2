package problem

import "slices"

// Entry is what the catalogue says about one code. Title, Status, Retryable and NewKeySafe go into every document;
// Meaning, WhatToDo and Curl are for the page behind the document's type URL.
type Entry struct {
	Code   Code
	Status int // the HTTP status that always goes with the code
	Title  string

	// Retryable says whether the same key may be sent again with the same body.
	Retryable bool

	// NewKeySafe says that this answer proves: no money has moved under this key, and none will while the key is kept.
	// So another key for the same intent cannot charge twice. False is the answer whenever that is not proven. It is
	// false for a refusal that comes before the key is looked up, because an earlier request with this key may have
	// been executed. It is false for every key that may still be executed, because a delayed copy of the request may
	// arrive later.
	NewKeySafe bool

	Meaning  string
	WhatToDo string

	// Curl is one shell line that shows the code, against the demo. $BASE stands for the server's public URL, $OPERATOR
	// for that of the operator's listener, $PSP for the mock PSP. Where no line can show the code, it is empty, and
	// Unseen says what would.
	Curl, Unseen string
}

// Lookup returns the catalogue's entry for code, and whether there is one.
func Lookup(code Code) (Entry, bool) {
	for _, entries := range [][]Entry{ofRequests, ofServer} {
		for _, entry := range entries {
			if entry.Code == code {
				return entry, true
			}
		}
	}
	return Entry{}, false
}

// All returns every entry, ordered by status and then by code. The caller owns the slice.
func All() []Entry {
	return slices.Concat(ofRequests, ofServer)
}

// ClientGone is the status, in logs and pictures, of a request whose connection was closed before the answer: by the
// client, or by the server's write timeout.
const ClientGone = 499
