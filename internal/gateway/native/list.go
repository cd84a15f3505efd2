package native

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

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

const (
	// maxPageBytes bounds a page. A longer page is requested again with fewer records. A record has at most 6 KiB, even
	// if each character is escaped, unless it has members that we do not know.
	maxPageBytes = 1 << 20
	// maxLonePage bounds a page of one record.
	maxLonePage = 16 << 20
	// maxCursor bounds a cursor, in bytes.
	maxCursor = 1024
	// maxRaw bounds the part of an unreadable record that is kept, in bytes.
	maxRaw = 64 << 10
)

// List reads one page of the account's charges or refunds that were created after a time. The zero time means from the
// beginning. The page begins at the cursor, which is "" for the first page. A page that is not the last has at least
// one record, readable or not, and another cursor. So reading page after page ends.
func (c *Client) List(
	ctx context.Context, o gateway.Object, account string, after time.Time, cursor string,
) (gateway.Page, error) {
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
		page, label, err = gateway.Page{}, "list_failed", fmt.Errorf("list %ss: %w", o, err)
	}
	c.observe(label, c.now().Sub(began))
	return page, err
}

// page requests one page of the account's objects, and accepts it only if it is valid. If a page is too long, it is
// requested again, with at most as many records as arrived within the limit.
func (c *Client) page(ctx context.Context, o gateway.Object, account string, query url.Values) (gateway.Page, error) {
	path := pathOf(o)
	if path == "" {
		return gateway.Page{}, errors.New("no such object")
	}
	for limit, most := gateway.MaxPage, int64(maxPageBytes); ; {
		query.Set("limit", strconv.Itoa(limit))
		var page gateway.Page
		build := c.get(account, path+"?"+query.Encode(), "application/json")
		err := c.Read(ctx, account, build, most, func(body io.Reader) (err error) {
			page, err = parsePage(body, o, account)
			return err
		})
		if _, tooLong := errors.AsType[wire.TooLongError](err); !tooLong || limit == 1 {
			return page, err
		}
		if limit = max(1, min(limit/2, len(page.Records)+len(page.Unreadable))); limit == 1 {
			most = maxLonePage
		}
	}
}

// parsePage reads a list. The list must say whether it has an end. A list without hasMore, or with data that is null,
// is an error, because nobody knows which records it leaves out. If parsePage fails, the page has the records before
// the error.
func parsePage(body io.Reader, o gateway.Object, account string) (gateway.Page, error) {
	page := gateway.Page{Records: []gateway.Record{}}
	wrongList := "" // why a record does not belong to the list that was requested
	members, err := cutList(body, func(p piece) error {
		if len(page.Records)+len(page.Unreadable) == gateway.MaxPage {
			return fmt.Errorf("answer has more than %d records", gateway.MaxPage)
		}
		r, reason := readPiece(p)
		switch n := len(page.Records); {
		case reason != "":
			putAside(&page, p, reason)
		case r.Account != account:
			wrongList = "record of another account"
			putAside(&page, p, wrongList)
		case r.Object != o:
			wrongList = "record of another object"
			putAside(&page, p, wrongList)
		case n > 0 && r.Created.Before(page.Records[n-1].Created):
			// A scan that continues after the last record of such a page would miss records.
			return errors.New("answer is not oldest first")
		default:
			page.Records = append(page.Records, r)
		}
		return nil
	})
	if err == nil {
		page.Next, err = nextOf(members, len(page.Records)+len(page.Unreadable))
	}
	if err == nil && wrongList != "" && len(page.Records) == 0 {
		err = errors.New(wrongList) // No record belongs to this list, so the PSP has not answered our question.
	}
	return page, err
}

// readPiece reads a record. If it cannot, reason says why.
func readPiece(p piece) (r gateway.Record, reason string) {
	if p.rest != nil {
		return gateway.Record{}, fmt.Sprintf("record longer than %d bytes", maxRecord)
	}
	r, err := parseRecord(p.raw)
	if err != nil {
		return gateway.Record{}, err.Error()
	}
	return r, ""
}

func putAside(p *gateway.Page, record piece, reason string) {
	p.Unreadable = append(p.Unreadable, gateway.Unreadable{
		Raw: bytes.Clone(record.raw[:min(len(record.raw), maxRaw)]), Name: record.name(), ID: idIn(record.raw),
		Reason: reason,
	})
}

// nextOf reads the cursor of the next page from a list's members. It is "" if the list ends.
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
