package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxPage is the longest page that is asked for and taken, in records.
const MaxPage = 100

const (
	// maxPageBytes bounds a page. A longer one is asked for again with fewer records. A record has 6 KiB at most, of texts with an escape for
	// each character, unless it has members that we do not read.
	maxPageBytes = 1 << 20
	// maxLonePage bounds a page of one record.
	maxLonePage = 16 << 20
	// maxCursor bounds a cursor, in bytes.
	maxCursor = 1024
	// maxRaw bounds what is kept of a record that cannot be read, in bytes.
	maxRaw = 64 << 10
)

// Page is a part of the PSP's ledger, oldest first.
type Page struct {
	Records    []Record
	Unreadable []Unreadable // besides the Records: where they lie among them, nobody can tell
	Next       string       // the cursor of the page that follows; "" on the last
}

// Unreadable is a record that ParseRecord refuses, that is too long, or that is not of the list's account and object. One of them must not
// hide all those behind it.
type Unreadable struct {
	Raw    []byte // its beginning, which need not be JSON
	Name   string // "sha256:" and the hash of all of it, which is its name where its id is what cannot be read
	ID     string // what it calls itself, if that can be an id; otherwise ""
	Reason string // repeats nothing of it
}

// List reads one page of the account's charges or refunds created after a time (the zero time: from the beginning), from a
// cursor on ("" at first). A page that is not the last has records, readable or not, and another cursor, so that reading on comes to an end.
func (c *Client) List(ctx context.Context, o Object, account string, after time.Time, cursor string) (Page, error) {
	query := url.Values{}
	if !after.IsZero() {
		query.Set("createdAfter", after.UTC().Format(time.RFC3339Nano))
	}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	began := c.now()
	page, err := c.page(ctx, o, account, query)
	if err == nil && cursor != "" && page.Next == cursor {
		err = errors.New("answer leads back to its own page")
	}
	label := "list_ok"
	if err != nil {
		page, label, err = Page{}, "list_failed", fmt.Errorf("list %ss: %w", o, err)
	}
	c.observe(label, c.now().Sub(began))
	return page, err
}

// page asks for one page of the account's objects and takes it if it can be one. A page that is too long is asked for again, with no more
// records than had come before it was.
func (c *Client) page(ctx context.Context, o Object, account string, query url.Values) (Page, error) {
	path := o.path()
	if path == "" {
		return Page{}, errors.New("no such object")
	}
	for limit, most := MaxPage, int64(maxPageBytes); ; {
		query.Set("limit", strconv.Itoa(limit))
		var page Page
		err := c.ask(ctx, account, path+"?"+query.Encode(), most, func(body io.Reader) (err error) {
			page, err = parsePage(body, o, account)
			return err
		})
		if _, tooLong := errors.AsType[tooLongError](err); !tooLong || limit == 1 {
			return page, err
		}
		if limit = max(1, min(limit/2, len(page.Records)+len(page.Unreadable))); limit == 1 {
			most = maxLonePage
		}
	}
}

// parsePage reads a list. An end that is not stated is none: a list without hasMore, or with data that is null, says nothing
// of what it leaves out. Beside an error, the page is what came before it.
func parsePage(body io.Reader, o Object, account string) (Page, error) {
	page := Page{Records: []Record{}}
	astray := "" // how a record is not of the list that was asked for
	members, err := cutList(body, func(p piece) error {
		if len(page.Records)+len(page.Unreadable) == MaxPage {
			return fmt.Errorf("answer has more than %d records", MaxPage)
		}
		r, reason := readPiece(p)
		switch n := len(page.Records); {
		case reason != "":
			page.putAside(p, reason)
		case r.Account != account:
			astray = "record of another account"
			page.putAside(p, astray)
		case r.Object != o:
			astray = "record of another object"
			page.putAside(p, astray)
		case n > 0 && r.Created.Before(page.Records[n-1].Created):
			// Whoever reads on from the last record of such a page misses some.
			return errors.New("answer is not oldest first")
		default:
			page.Records = append(page.Records, r)
		}
		return nil
	})
	if err == nil {
		page.Next, err = nextOf(members, len(page.Records)+len(page.Unreadable))
	}
	if err == nil && astray != "" && len(page.Records) == 0 {
		err = errors.New(astray) // and none that is of this list: nobody has answered the question
	}
	return page, err
}

// readPiece reads a record, or says why it cannot be read.
func readPiece(p piece) (r Record, reason string) {
	if p.rest != nil {
		return Record{}, fmt.Sprintf("record longer than %d bytes", maxRecord)
	}
	r, err := ParseRecord(p.raw)
	if err != nil {
		return Record{}, err.Error()
	}
	return r, ""
}

func (p *Page) putAside(record piece, reason string) {
	p.Unreadable = append(p.Unreadable, Unreadable{
		Raw: bytes.Clone(record.raw[:min(len(record.raw), maxRaw)]), Name: record.name(), ID: idIn(record.raw), Reason: reason,
	})
}

// nextOf reads from a list's members where it goes on behind its records, if it does.
func nextOf(members map[string]jsontext.Value, records int) (next string, err error) {
	more := string(members["hasMore"])
	if raw := members["nextCursor"]; raw != nil {
		err = json.Unmarshal(raw, &next)
	}
	if _, hasData := members["data"]; err != nil || !hasData || more != "true" && more != "false" {
		return "", errMalformedList
	}
	if more := more == "true"; more != (next != "") || more && records == 0 || len(next) > maxCursor {
		return "", errors.New("answer without a clear end")
	}
	return next, nil
}
