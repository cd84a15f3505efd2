package stripe

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxQuery   = 1000
	maxClauses = 10
)

// searchPage is a page of search results as the API shows it.
type searchPage struct {
	Object   string  `json:"object"`
	URL      string  `json:"url"`
	HasMore  bool    `json:"has_more"`
	NextPage *string `json:"next_page"`
	Data     []any   `json:"data"`
}

// clause is one condition of a query: metadata['key']:'value', or field:'value'.
type clause struct{ metadata, field, value string }

var clausePattern = regexp.MustCompile(
	`^\s*(?:metadata\[['"]([^'"\]]+)['"]\]|(status|currency|amount|created))\s*:\s*(?:'([^']*)'|"((?:[^"\\]|\\.)*)"|(\d+))\s*`)

// unquoted takes away the backslashes before quotes and backslashes.
var unquoted = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// parseQuery reads clauses that are joined by AND, which is all of the search language that is understood here.
func parseQuery(query string) ([]clause, error) {
	if query == "" {
		return nil, missing("query")
	}
	if len(query) > maxQuery {
		return nil, invalid("query", "The query is too long.")
	}
	var clauses []clause
	for rest := query; ; {
		match := clausePattern.FindStringSubmatch(rest)
		if match == nil || len(clauses) == maxClauses {
			return nil, invalid("query", "We were unable to parse your search query.")
		}
		clauses = append(clauses, clause{match[1], match[2], match[3] + unquoted.Replace(match[4]) + match[5]})
		rest = rest[len(match[0]):]
		if rest == "" {
			return clauses, nil
		}
		joined, ok := strings.CutPrefix(rest, "AND ")
		if !ok {
			return nil, invalid("query", "We were unable to parse your search query.")
		}
		rest = joined
	}
}

func (q clause) matches(i *intent) bool {
	switch {
	case q.metadata != "":
		value, has := i.Metadata[q.metadata]
		return has && value == q.value
	case q.field == "status":
		return i.Status == q.value
	case q.field == "currency":
		return i.Currency == q.value
	case q.field == "amount":
		return decimal(i.Amount) == q.value
	default:
		return decimal(i.Created) == q.value
	}
}

// searchIntents finds intents some time after they were made: the index lags behind. Stuck ones it never finds.
func (s *Server) searchIntents(c *call) (reply, error) {
	clauses, err := parseQuery(c.params.text("query"))
	if err != nil {
		return reply{}, err
	}
	l, err := c.params.listing()
	if err != nil {
		return reply{}, err
	}
	l.after = strings.TrimPrefix(c.params.text("page"), pageToken)
	if err := c.params.rest(); err != nil {
		return reply{}, err
	}
	indexed := s.now().Add(-s.config.SearchLag)
	var found []*intent
	var more bool
	s.store.read(c.account, func(b *book) {
		found, more, err = pageOf(b.intents.before(indexed), l, "page", func(i *intent) int64 { return i.Created },
			func(i *intent) bool {
				return !i.Stuck && !slices.ContainsFunc(clauses, func(q clause) bool { return !q.matches(i) })
			})
	})
	if err != nil {
		return reply{}, err
	}
	p := searchPage{Object: "search_result", URL: c.r.URL.Path, HasMore: more, Data: []any{}}
	for _, i := range found {
		p.Data = append(p.Data, i.view(nil))
	}
	if more {
		next := pageToken + found[len(found)-1].ID
		p.NextPage = &next
	}
	return ok(p)
}

// pageToken begins the names of the search's further pages. Callers should not read them.
const pageToken = "page_"

// before returns the objects that were first published before a time.
func (s series[T]) before(t time.Time) series[T] {
	end := len(s.all)
	for end > 0 && s.all[end-1].since.After(t) {
		end--
	}
	return series[T]{s.all[:end], s.byID}
}
