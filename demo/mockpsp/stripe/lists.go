package stripe

import (
	"cmp"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"payonce/demo/mockpsp"
)

const (
	defaultLimit = 10
	maxLimit     = 100
	maxQuery     = 1000
	// clockSkew is how far an object may be older than one that was written before it, in seconds: a clock may step
	// back over a restart.
	clockSkew = 24 * 60 * 60
)

// object is an object as the API shows it.
type object = map[string]any

func (s *Server) ok(c *call, shown object) (reply, error) {
	return reply{Status: http.StatusOK, Body: mockpsp.Render(s.store.expand(shown, c.asked.expand, &change{}))}, nil
}

// listing selects a page of a list.
type listing struct {
	limit    int
	after    string // an id: the page lies beyond this object, towards older ones
	from, to int64  // seconds of creation; the last one is not included
}

// listing reads the parameters that every list has.
func (p *params) listing() listing {
	l := listing{cmp.Or(int(p.number("limit")), defaultLimit), p.text("starting_after"), p.number("created[gte]"),
		math.MaxInt64}
	if p.values.Has("created[lt]") {
		l.to = p.number("created[lt]")
	}
	return l
}

// pageOf returns a page of the series, newest first. Objects that are added while a reader goes from page to page move
// nothing: a page begins at an object, not at a number. Matches tells which objects are on the list.
func pageOf[T any](in series[T], l listing, matches func(*slot[T]) bool) (page []T, more bool, err error) {
	end := len(in.all)
	if l.after != "" {
		known := in.byID[l.after]
		if known == nil {
			return nil, false, noSuch("object", "starting_after", l.after)
		}
		end = min(known.position, end) // a series may end before the object of an old page
	}
	for _, s := range slices.Backward(in.all[:end]) {
		created := s.since.Unix()
		switch {
		case created < l.from-clockSkew: // nothing behind it is wanted
			return page, false, nil
		case created < l.from || created >= l.to || !matches(s):
		case len(page) == l.limit:
			return page, true, nil
		default:
			page = append(page, s.newest)
		}
	}
	return page, false, nil
}

// member is an object that lists have, with its intent or its payout if lists may be asked for those of one.
type member interface {
	snapshot
	about() (intent string, stuck bool)
}

func (i *intent) about() (string, bool)      { return "", i.Stuck }
func (c *charge) about() (string, bool)      { return c.Intent, c.Stuck }
func (r *refund) about() (string, bool)      { return r.Intent, r.Stuck }
func (d *dispute) about() (string, bool)     { return d.Intent, false }
func (t *transaction) about() (string, bool) { return t.payout, false } // another system makes this list

// list answers with a page of one of the account's series. It leaves what is stuck out, or one of them would end all
// scans for good. But the list of one intent fails: a reader would take a list without the charge or refund for proof.
// For the same reason, only a list of everything lacks what is booked late.
func list[T member](of func(*book) series[T]) func(*Server, *call) (reply, error) {
	return func(s *Server, c *call) (answered reply, err error) {
		asked, fails := cmp.Or(c.params.text("payment_intent"), c.params.text("payout")), false
		booked := s.now().Add(-s.psp.Config().LateDelay)
		var found []T
		var more bool
		s.store.read(c.account, func(b *book) {
			found, more, err = pageOf(of(b), c.params.listing(), func(one *slot[T]) bool {
				if asked == "" && one.late && one.since.After(booked) {
					return false
				}
				intent, stuck := one.newest.about()
				wanted := asked == "" || intent == asked
				fails = fails || asked != "" && wanted && stuck
				return wanted && !stuck
			})
		})
		if err == nil && fails {
			err = serverError()
		}
		if err != nil {
			return reply{}, err
		}
		return s.ok(c, object{"object": "list", "url": c.r.URL.Path, "has_more": more, "data": shownAll(found)})
	}
}

func shownAll[T snapshot](all []T) []object {
	data := []object{}
	for _, one := range all {
		data = append(data, one.shown())
	}
	return data
}

func (s *Server) getIntent(c *call) (reply, error) {
	found, err := s.findIntent(c)
	if err != nil {
		return reply{}, err
	}
	current := s.store.newestIntent(found)
	if current.Stuck {
		return reply{}, serverError()
	}
	return s.ok(c, current.shown())
}

// queryPattern is all of the search language that is understood here: metadata['key']:'value'.
var queryPattern = regexp.MustCompile(`^metadata\[['"]([^'"\]]+)['"]\]:(?:'([^']*)'|"((?:[^"\\]|\\.)*)")$`)

// unquoted takes away the backslashes before quotes and backslashes.
var unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

func checkQuery(name, query string) error {
	if len(query) > maxQuery || !queryPattern.MatchString(query) {
		return invalid(name, "We were unable to parse your search query.")
	}
	return nil
}

// searchIntents finds intents some time after they were made: the index lags behind. Stuck ones it never finds.
func (s *Server) searchIntents(c *call) (reply, error) {
	asked := queryPattern.FindStringSubmatch(c.params.text("query"))
	if asked == nil {
		return reply{}, missing("query")
	}
	l := c.params.listing()
	l.after = c.params.text("page")
	key, value := asked[1], asked[2]+unquoted.Replace(asked[3])
	var found []*intent
	var more bool
	var err error
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.intents.before(s.now().Add(-s.config.SearchLag)), l, func(i *slot[*intent]) bool {
			has, known := i.newest.Metadata[key]
			return known && has == value && !i.newest.Stuck
		})
	})
	if err != nil {
		return reply{}, invalid("page", "Invalid page token.")
	}
	var next *string
	if more {
		next = new(found[len(found)-1].ID)
	}
	return s.ok(c, object{"object": "search_result", "url": c.r.URL.Path, "has_more": more, "next_page": next,
		"data": shownAll(found)})
}

// before returns the objects that were first published before a time.
func (s series[T]) before(t time.Time) series[T] {
	end := len(s.all)
	for end > 0 && s.all[end-1].since.After(t) {
		end--
	}
	return series[T]{s.all[:end], s.byID}
}
