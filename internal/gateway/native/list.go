package native

import (
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
	// maxRecord bounds a record, in bytes.
	maxRecord = 4 << 20
	// maxCursor bounds a cursor, in bytes.
	maxCursor = 1024
)

// List reads one page of the account's charges or refunds. A page that is not the last has at least one record,
// readable or not.
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
	page, err := c.page(ctx, o, account, query)
	if err == nil && cursor != "" && page.Next == cursor {
		err = errors.New("answer leads back to its own page")
	}
	if err != nil {
		return gateway.Page{}, err
	}
	return page, nil
}

// page requests one page of the account's objects, and accepts it only if it is valid. If a page is too long, it is
// requested again, with at most as many records as arrived within the limit.
func (c *Client) page(ctx context.Context, o gateway.Object, account string, query url.Values) (gateway.Page, error) {
	for limit, most := gateway.MaxPage, int64(maxPageBytes); ; {
		query.Set("limit", strconv.Itoa(limit))
		var page gateway.Page
		build := c.get(account, "/v1/"+string(o)+"s?"+query.Encode(), "application/json")
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
	var wrongList error // why a record does not belong to the list that was requested
	members, err := wire.CutList(body, func(raw []byte) error {
		if len(page.Records)+len(page.Unreadable) == gateway.MaxPage {
			return fmt.Errorf("answer has more than %d records", gateway.MaxPage)
		}
		r, err := parseRecord(raw)
		switch {
		case err == nil && r.Account != account:
			err = errors.New("record of another account")
			wrongList = err
		case err == nil && r.Object != o:
			err = errors.New("record of another object")
			wrongList = err
		}
		if err != nil {
			page.Unreadable = append(page.Unreadable, wire.Unreadable(raw, raw, err))
			return nil
		}
		if n := len(page.Records); n > 0 && r.Created.Before(page.Records[n-1].Created) {
			// A scan that continues after the last record of such a page would miss records.
			return errors.New("answer is not oldest first")
		}
		page.Records = append(page.Records, r)
		return nil
	})
	if err == nil {
		page.Next, err = nextOf(members, len(page.Records)+len(page.Unreadable))
	}
	if err == nil && len(page.Records) == 0 {
		err = wrongList // No record belongs to this list, so the PSP has not answered our question.
	}
	return page, err
}

// nextOf reads the cursor of the next page from a list's members. It is "" if the list ends.
func nextOf(members map[string]jsontext.Value, records int) (next string, err error) {
	more := string(members["hasMore"])
	if raw := members["nextCursor"]; raw != nil {
		err = json.Unmarshal(raw, &next)
	}
	if err != nil || more != "true" && more != "false" {
		return "", wire.ErrMalformedList
	}
	if more := more == "true"; more != (next != "") || more && records == 0 || len(next) > maxCursor {
		return "", errors.New("answer without a clear end")
	}
	return next, nil
}
