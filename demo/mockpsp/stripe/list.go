package stripe

import (
	"iter"
	"slices"
	"strings"
)

const (
	defaultLimit = 10
	maxLimit     = 100
	maxCreated   = 253402300799 // in the year 9999
)

// listing selects a page of a list.
type listing struct {
	limit         int
	after, before string // ids: the page lies beyond the object, towards older or newer ones
	from, to      int64  // seconds of creation, both included
}

// pageView is a list as the API shows it.
type pageView struct {
	Object  string `json:"object"`
	URL     string `json:"url"`
	HasMore bool   `json:"has_more"`
	Data    []any  `json:"data"`
}

func (p *params) listing() (listing, error) {
	l := listing{limit: defaultLimit, after: p.text("starting_after"), before: p.text("ending_before"), to: maxCreated}
	limit, err := p.number("limit")
	switch {
	case err != nil:
		return l, err
	case p.has("limit") && (limit < 1 || limit > maxLimit):
		return l, invalidCode("parameter_invalid_integer", "limit", "limit must be between 1 and 100.")
	case limit > 0:
		l.limit = int(limit)
	}
	if l.after != "" && l.before != "" {
		return l, invalid("", "You cannot parameterize both starting_after and ending_before.")
	}
	for _, name := range []string{"created", "created[gt]", "created[gte]", "created[lt]", "created[lte]"} {
		if !p.has(name) {
			continue
		}
		at, err := p.number(name)
		if err != nil || at < 0 || at > maxCreated {
			return l, invalidCode("parameter_invalid_integer", name, "Invalid timestamp: must be an integer")
		}
		l.bound(name, at)
	}
	return l, nil
}

func (l *listing) bound(name string, at int64) {
	switch name {
	case "created":
		l.from, l.to = max(l.from, at), min(l.to, at)
	case "created[gt]":
		l.from = max(l.from, at+1)
	case "created[gte]":
		l.from = max(l.from, at)
	case "created[lt]":
		l.to = min(l.to, at-1)
	case "created[lte]":
		l.to = min(l.to, at)
	}
}

// pageOf returns a page of the series, newest first. Objects that are added while a reader goes from page to page move
// nothing: a page begins at an object, not at a number. Matches tells which objects are on the list.
func pageOf[T any](in series[T], l listing, what string, createdOf func(T) int64, matches func(T) bool) (
	page []T, more bool, err error,
) {
	from, to := 0, len(in.all)
	if l.after != "" {
		known := in.byID[l.after]
		if known == nil {
			return nil, false, noSuch(what, "starting_after", l.after)
		}
		to = min(known.position, to) // a series may end before the object of an old page
	}
	if l.before != "" {
		known := in.byID[l.before]
		if known == nil {
			return nil, false, noSuch(what, "ending_before", l.before)
		}
		from = min(known.position+1, to)
	}
	isTooOld := func(s *slot[T]) bool { return createdOf(s.newest) < l.from-clockSkew }
	wanted := func(s *slot[T]) bool {
		created := createdOf(s.newest)
		return created >= l.from && created <= l.to && matches(s.newest)
	}
	if l.before != "" { // the page that is nearest to the object, and still newest first
		page, more = take(l, slices.All(in.all[from:to]), wanted, func(*slot[T]) bool { return false })
		slices.Reverse(page)
		return page, more, nil
	}
	page, more = take(l, slices.Backward(in.all[from:to]), wanted, isTooOld)
	return page, more, nil
}

// take returns as many wanted objects as fit on the page, and whether there are more. It ends at the first that is too
// old: none behind it is wanted.
func take[T any](l listing, all iter.Seq2[int, *slot[T]], wanted, isTooOld func(*slot[T]) bool) (page []T, more bool) {
	for _, s := range all {
		switch {
		case isTooOld(s):
			return page, false
		case !wanted(s):
		case len(page) == l.limit:
			return page, true
		default:
			page = append(page, s.newest)
		}
	}
	return page, false
}

// clockSkew is how far an object may be older than one that was written before it, in seconds: a clock may step back
// over a restart.
const clockSkew = 24 * 60 * 60

func answerPage[T any](c *call, found []T, more bool, show func(T) any) reply {
	p := pageView{Object: "list", URL: c.r.URL.Path, HasMore: more, Data: []any{}}
	for _, one := range found {
		p.Data = append(p.Data, show(one))
	}
	return reply{status: 200, body: render(p)}
}

// expands says whether the caller wants an object in place of its id.
func (c *call) expands(what string) bool {
	return slices.Contains(c.params.texts("expand"), what)
}

// matchesType tells whether an event is one of the types, where none means all, and charge.* all of a charge.
func matchesType(kind string, types []string) bool {
	return len(types) == 0 || slices.ContainsFunc(types, func(wanted string) bool {
		prefix, isPattern := strings.CutSuffix(wanted, "*")
		return wanted == kind || isPattern && strings.HasPrefix(kind, prefix)
	})
}
