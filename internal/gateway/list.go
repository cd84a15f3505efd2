package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxPage is the longest page that is asked for and taken, in records.
const MaxPage = 100

const (
	// maxPageBytes bounds a page. A record has 6 KiB at most, of texts with an escape for each character: whoever pays us
	// cannot make a page by which a scan of the ledger stops for good.
	maxPageBytes = 1 << 20
	// maxCursor bounds a cursor, in bytes.
	maxCursor = 1024
)

// Page is a part of the PSP's ledger, oldest first.
type Page struct {
	Records    []Record
	Unreadable []Unreadable // besides the Records: where they lie among them, nobody can tell
	Next       string       // the cursor of the page that follows; "" on the last
}

// Unreadable is a record that ParseRecord refuses. One of them must not hide all those behind it.
type Unreadable struct {
	Raw    []byte // JSON, within what a page may have
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

// page asks for one page of the account's objects and takes it if it can be one.
func (c *Client) page(ctx context.Context, o Object, account string, query url.Values) (Page, error) {
	path := o.path()
	if path == "" {
		return Page{}, errors.New("no such object")
	}
	query.Set("limit", strconv.Itoa(MaxPage))
	a, err := c.ask(ctx, account, path+"?"+query.Encode())
	if err != nil {
		return Page{}, err
	}
	if a.status != http.StatusOK {
		return Page{}, fmt.Errorf("PSP answered %d", a.status)
	}
	return parsePage(a.body, o, account)
}

// parsePage reads a list. An end that is not stated is none: a list without hasMore, or with data that is null, says nothing
// of what it leaves out.
func parsePage(body []byte, o Object, account string) (Page, error) {
	var list struct {
		Data       *[]jsontext.Value `json:"data"`
		HasMore    *bool             `json:"hasMore"`
		NextCursor string            `json:"nextCursor"`
	}
	if err := json.Unmarshal(body, &list); err != nil || list.Data == nil || list.HasMore == nil {
		return Page{}, errors.New("answer malformed")
	}
	switch more := *list.HasMore; {
	case len(*list.Data) > MaxPage:
		return Page{}, fmt.Errorf("answer has more than %d records", MaxPage)
	case more != (list.NextCursor != ""), more && len(*list.Data) == 0, len(list.NextCursor) > maxCursor:
		return Page{}, errors.New("answer without a clear end")
	}
	page := Page{Records: make([]Record, 0, len(*list.Data)), Next: list.NextCursor}
	for _, raw := range *list.Data {
		r, err := ParseRecord(raw)
		if err != nil {
			page.Unreadable = append(page.Unreadable, Unreadable{Raw: raw, Reason: err.Error()})
			continue
		}
		page.Records = append(page.Records, r)
	}
	return page, page.check(o, account)
}

// check fails on a page that is not what was asked for, as far as it can be read.
func (p Page) check(o Object, account string) error {
	for i, r := range p.Records {
		switch {
		case r.Object != o:
			return errors.New("answer has another object")
		case r.Account != account:
			return errors.New("answer has another account")
		case i > 0 && r.Created.Before(p.Records[i-1].Created):
			// Whoever reads on from the last record of such a page misses some.
			return errors.New("answer is not oldest first")
		}
	}
	return nil
}
