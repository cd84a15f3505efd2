package stripe

import (
	"bytes"
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

var (
	errMalformedList = errors.New("answer malformed")
	errNoEnd         = errors.New("answer without a clear end")
)

// pages reads a list of Stripe page by page, newest first (https://docs.stripe.com/api/pagination).
type pages struct {
	client  *Client
	account string
	path    string
	query   url.Values
	limit   int
	done    bool // the list has no more pages
}

func filter(name, value string) url.Values { return url.Values{name: {value}} }

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
	after := objectIn(l.data[len(l.data)-1]).ID
	// A page that is requested again would have no end.
	if !gateway.IsID(after) || after == p.query.Get("starting_after") {
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
	members, err := membersOf(body)
	if err != nil {
		return list{}, errMalformedList
	}
	var object string
	if json.Unmarshal(members["object"], &object) != nil || object != kind {
		return list{}, errMalformedList
	}
	more := string(members["has_more"])
	if more != "true" && more != "false" || members["data"].Kind() != '[' {
		return list{}, errMalformedList
	}
	if l.data, err = itemsOf(members["data"]); err != nil {
		return list{}, errMalformedList
	}
	if l.more = more == "true"; l.more && len(l.data) == 0 {
		return list{}, errNoEnd
	}
	return l, nil
}

// tolerant reads text as it arrived. So an object with a member twice, or with invalid UTF-8, can be split off.
func tolerant(text io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// membersOf returns the members of the only object in a text. A member that is there twice is an error.
func membersOf(text io.Reader) (map[string]jsontext.Value, error) {
	d := tolerant(text)
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errMalformedList
	}
	members := map[string]jsontext.Value{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if _, twice := members[key]; twice {
			return nil, errMalformedList
		}
		members[key] = value.Clone()
	}
	return members, closed(d)
}

// itemsOf returns the items of an array.
func itemsOf(array jsontext.Value) (items []jsontext.Value, err error) {
	d := tolerant(bytes.NewReader(array))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		items = append(items, item.Clone())
	}
	return items, closed(d)
}

// closed reads the closing bracket. Nothing may follow it.
func closed(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errMalformedList
	}
	return nil
}

// identity is how an object calls itself, even if it is otherwise malformed.
type identity struct {
	ID            string
	Object        string
	PaymentIntent string
}

func objectIn(raw jsontext.Value) (i identity) {
	text := func(v jsontext.Value) (s string) {
		// A member that is no text leaves "".
		if json.Unmarshal(v, &s) != nil {
			return ""
		}
		return s
	}
	d := tolerant(bytes.NewReader(raw))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return identity{}
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return i
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return i
		}
		switch {
		case key == "id" && i.ID == "":
			i.ID = text(value)
		case key == "object" && i.Object == "":
			i.Object = text(value)
		case key == "payment_intent" && i.PaymentIntent == "":
			i.PaymentIntent = text(value)
		}
	}
	return i
}
