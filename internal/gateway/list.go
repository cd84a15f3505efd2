package gateway

import "time"

// MaxPage is how many records a page has at most, except where a provider's list cannot be cut there.
const MaxPage = 100

// Page is a part of the PSP's ledger, oldest first. A page that is not the last has another cursor. So reading page
// after page ends.
type Page struct {
	Records    []Record
	Unreadable []Unreadable // not in Records; their order among the Records is not known
	Foreign    int          // records that this installation did not make; they are in neither list
	Next       string       // the cursor of the next page; "" on the last one
	// ReadTo: everything up to this time was read, with what is in none of the lists. It is zero if that is not known.
	ReadTo time.Time
}

// Reached is the time up to which a reader of the page has read. It is zero if the page does not tell.
func (p Page) Reached() time.Time {
	if n := len(p.Records); n > 0 && p.Records[n-1].Created.After(p.ReadTo) {
		return p.Records[n-1].Created
	}
	return p.ReadTo
}

// Unreadable is a record that cannot be read, or that is not of the list's account and object. Such a record must not
// hide the records after it.
type Unreadable struct {
	Raw    []byte // the beginning of the record, which may not be JSON
	Name   string // "sha256:" and the hash of the whole record; it identifies a record whose id cannot be read
	ID     string // the record's own id, if it has the form of an id; otherwise ""
	Reason string // repeats nothing of the record
}
