package problem

import "slices"

// Entry is what the catalogue says about one code. Title, Status and Retryable go into every document; Meaning,
// WhatToDo and Curl are for the page behind the document's type URL.
type Entry struct {
	Code   Code
	Status int // the HTTP status that always goes with the code
	Title  string

	// Retryable says whether the same key may be sent again with the same body.
	Retryable bool

	Meaning  string
	WhatToDo string

	// Curl is one shell line that shows the code, against the demo. $BASE stands for the server's public URL, $OPERATOR
	// for that of the operator's listener. Where no line can show the code, it is empty, and Unseen says what would.
	Curl, Unseen string
}

// Lookup returns the catalogue's entry for code, and whether there is one.
func Lookup(code Code) (Entry, bool) {
	for _, entry := range catalogue {
		if entry.Code == code {
			return entry, true
		}
	}
	return Entry{}, false
}

// All returns every entry, ordered by status and then by code. The caller owns the slice.
func All() []Entry {
	return slices.Clone(catalogue)
}
