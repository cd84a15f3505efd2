package stripe

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

const (
	// maxPageBytes bounds a page. A longer page is requested again with fewer objects. A charge has about 4 KiB, and 50
	// values of metadata add 25 KiB at most.
	maxPageBytes = 4 << 20
	// maxLonePage bounds a page of one object.
	maxLonePage = 16 << 20
)

var errNoEnd = errors.New("answer without a clear end")

// pages reads a list of Stripe page by page, newest first (https://docs.stripe.com/api/pagination).
type pages struct {
	client  *Client
	account string
	path    string
	query   url.Values
	limit   int
	done    bool // the list has no more pages
}

func (c *Client) pages(account, path string, query url.Values) *pages {
	return &pages{client: c, account: account, path: path, query: query, limit: gateway.MaxPage}
}

// next returns the objects of the next page.
func (p *pages) next(ctx context.Context) ([]jsontext.Value, error) {
	l, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	if p.done = !l.more; p.done {
		return l.data, nil
	}
	after := wire.TextIn(l.data[len(l.data)-1], "id")
	// A page that is requested again would have no end.
	if after == "" || after == p.query.Get("starting_after") {
		return nil, errNoEnd
	}
	p.query.Set("starting_after", after)
	return l.data, nil
}

// read requests a page. If it is too long, it is requested again with fewer objects.
func (p *pages) read(ctx context.Context) (l list, err error) {
	for most := int64(maxPageBytes); ; {
		p.query.Set("limit", strconv.Itoa(p.limit))
		build := p.client.get(p.account, p.path+"?"+p.query.Encode())
		err = p.client.Read(ctx, p.account, build, most, func(body io.Reader) error {
			l, err = parseList(body, "list")
			return err
		})
		if _, tooLong := errors.AsType[wire.TooLongError](err); !tooLong || p.limit == 1 {
			return l, err
		}
		if p.limit /= 10; p.limit == 1 {
			most = maxLonePage
		}
	}
}

// list is one page of a list.
type list struct {
	data []jsontext.Value
	more bool
}

// parseList reads a page of a list, or of search results. Its own members are read strictly: a list that does not say
// whether it has an end may leave out records. Each object is only split off. It is read later, so one malformed object
// does not hide the others.
func parseList(body io.Reader, kind string) (l list, err error) {
	members, err := wire.CutList(body, func(raw []byte) error {
		l.data = append(l.data, raw)
		return nil
	})
	var object string
	more := string(members["has_more"])
	if err != nil || json.Unmarshal(members["object"], &object) != nil || object != kind ||
		more != "true" && more != "false" {
		return list{}, wire.ErrMalformedList
	}
	if l.more = more == "true"; l.more && len(l.data) == 0 {
		return list{}, errNoEnd
	}
	return l, nil
}
