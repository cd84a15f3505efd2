package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/operator"
	"payonce/internal/payment"
	"payonce/internal/query"
	"payonce/internal/statement"
	"payonce/internal/tenants"
)

// field is a control of the form that filters a list.
type field struct {
	Name, Label string
	Choices     []string // of a choice; the first is what the list shows by itself
	Time        bool     // whether it is a time, in UTC
	Value       string
}

func textField(name, label string) field { return field{Name: name, Label: label} }

func timeField(name, label string) field {
	return field{Name: name, Label: label + " (UTC)", Time: true}
}

// choiceField is a field with a choice. The first value is what the list shows by itself; "" is everything.
func choiceField[S ~string](name, label string, choices ...S) field {
	f := field{Name: name, Label: label}
	for _, c := range choices {
		f.Choices = append(f.Choices, string(c))
	}
	return f
}

// listView is a page of a list.
type listView[T any] struct {
	Path     string
	Fields   []field
	Filtered bool   // whether a filter is set
	Wrong    string // what is wrong with the filter; or ""
	Rows     []T
	More     bool   // whether there is more, which no page shows
	Newest   string // the address of the first page, if this is a later one; or ""
	Older    string // the address of the next page; or ""
}

// Shows reports whether the list shows what has this value.
func (v listView[T]) Shows(name, value string) bool {
	return slices.ContainsFunc(v.Fields, func(f field) bool { return f.Name == name && f.Value == value })
}

// timeInput is the form of a time in a field of a browser, with seconds or without. It is in UTC.
const timeInput = "2006-01-02T15:04:05"

// queryIn reads the filter of a list from an address or a form, in the words of the operator's API. Forms also send the
// fields that are empty, and times without a time zone.
func queryIn(values url.Values, fields []field, others ...string) url.Values {
	query := url.Values{}
	for _, f := range fields {
		value := strings.TrimSpace(values.Get(f.Name))
		for _, form := range []string{timeInput, "2006-01-02T15:04"} {
			if at, err := time.Parse(form, value); f.Time && err == nil {
				value = at.Format(time.RFC3339)
			}
		}
		if value != "" {
			query.Set(f.Name, value)
		}
	}
	for _, name := range others {
		if value := values.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// viewOf is the page of a list without its rows.
func viewOf[T any](path string, fields []field, query url.Values) listView[T] {
	v := listView[T]{Path: path, Fields: slices.Clone(fields)}
	for i, f := range v.Fields {
		value := query.Get(f.Name)
		v.Fields[i].Value = value
		if at, err := time.Parse(time.RFC3339, value); f.Time && err == nil {
			v.Fields[i].Value = at.UTC().Format(timeInput)
		}
		v.Filtered = v.Filtered || value != "" && (len(f.Choices) == 0 || value != f.Choices[0])
	}
	if query.Has("cursor") {
		v.Newest = addressOf(path, queryIn(query, fields))
	}
	return v
}

func addressOf(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// listPage is the page of a list that the operator's API has, too. paging are the parameters that select a page of it.
func listPage[T any](
	c *Console, name, title, path string, l operator.Listing[T], fields []field, paging ...string,
) page {
	return func(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
		values := queryIn(r.URL.Query(), fields, paging...)
		v := viewOf[T](path, fields, values)
		q := &query.Query{Values: values}
		read := l(q)
		if bad := q.Bad(); len(bad) > 0 {
			v.Wrong = bad[0].Parameter + " " + bad[0].Detail + "."
			c.show(w, r, http.StatusBadRequest, name, title, &by, v)
			return
		}
		list, err := read(r.Context())
		if err != nil {
			c.explain(w, r, err)
			return
		}
		if v.Rows, v.More = list.Rows, list.More; list.Next != "" {
			values.Set("cursor", list.Next)
			v.Older = addressOf(path, values)
		}
		c.show(w, r, http.StatusOK, name, title, &by, v)
	}
}

func (c *Console) payments() page {
	return listPage(c, "payments.html", "Payments", "/console/payments", c.config.Operators.Payments, []field{
		choiceField("status", "Status", append([]payment.Status{""}, payment.Statuses()...)...),
		textField("tenant", "Tenant"), textField("customerId", "Customer"),
		textField("reference", "Reference"),
		timeField("createdAfter", "Created from"), timeField("createdBefore", "Created before"),
	}, "limit", "cursor")
}

func (c *Console) keys() page {
	list := listPage(c, "keys.html", "Keys", "/console/keys", c.config.Operators.Keys, []field{
		choiceField("status", "Status", "", idempotency.InProgressStatus, idempotency.UnknownStatus,
			idempotency.CompletedStatus, idempotency.FailedRetryableStatus, idempotency.ExpiredStatus),
		textField("tenant", "Tenant"),
	}, "limit", "cursor")
	return func(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
		if r.URL.Query().Has("key") {
			c.findKey(w, r, by)
			return
		}
		list(w, r, by)
	}
}

func (c *Console) webhooks() page {
	return listPage(c, "webhooks.html", "Webhooks", "/console/webhooks", c.config.Operators.Webhooks, []field{
		choiceField("status", "Status", "", operator.WebhookWaiting, operator.WebhookResolved,
			operator.WebhookConfirmed, operator.WebhookDeadLetter, operator.WebhookIgnored, operator.WebhookDismissed),
	}, "limit", "cursor")
}

func (c *Console) statements() page {
	return listPage(c, "statements.html", "Statements", "/console/statements", c.config.Operators.Statements,
		[]field{textField("account", "Account at the PSP")}, "limit", "cursor")
}

func (c *Console) books(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	const name, title, path = "books.html", "Both books of a day", "/console/books"
	fields := []field{textField("account", "Account at the PSP"), textField("day", "Day (UTC)")}
	if !r.URL.Query().Has("account") {
		c.show(w, r, http.StatusOK, name, title, &by, viewOf[statement.Books](path, fields, url.Values{}))
		return
	}
	listPage(c, name, title, path, c.config.Operators.Books, fields)(w, r, by)
}

func (c *Console) breaks() page {
	return listPage(c, "breaks.html", "Breaks", "/console/breaks", c.config.Operators.Breaks, []field{
		choiceField("status", "Status", operator.BreakOpen, operator.BreakGone),
		choiceField("kind", "Kind", append([]judge.BreakKind{""}, judge.BreakKinds()...)...),
		textField("account", "Account at the PSP"),
	}, "limit", "cursor")
}

// deadLetterFields filter the dead letters, in the list and for one decision about several.
func deadLetterFields() []field {
	return []field{
		choiceField("status", "Status", deadletters.OpenStatus, deadletters.ResolvedStatus),
		choiceField("kind", "Kind", append([]deadletters.Kind{""}, deadletters.Kinds()...)...),
		textField("tenant", "Tenant"),
		{Name: "age", Label: "Open for at least", Choices: []string{"", "3600", "86400", "604800"}},
		timeField("openedAfter", "Opened from"), timeField("openedBefore", "Opened before"),
	}
}

func (c *Console) deadLetters() page {
	return listPage(c, "deadletters.html", "Dead letters", "/console/dead-letters", c.config.Operators.DeadLetters,
		deadLetterFields(), "limit", "cursor")
}

func (c *Console) search(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	fields := []field{textField("q", "Id of a payment, a refund, a movement at the PSP or a dead letter, or a key; or its beginning; or a reference")}
	if strings.TrimSpace(r.URL.Query().Get("q")) == "" {
		c.show(w, r, http.StatusOK, "search.html", "Search", &by,
			viewOf[operator.Found]("/console/search", fields, url.Values{}))
		return
	}
	listPage(c, "search.html", "Search", "/console/search", c.config.Operators.Search, fields)(w, r, by)
}

func paymentKeyURL(p payment.Payment) string {
	return keyURL(idempotency.StoredRef(p.Tenant, payment.CreateOperation, p.Key))
}

func refundKeyURL(tenant, key string) string {
	return keyURL(idempotency.StoredRef(tenant, payment.RefundOperation, key))
}

// foundURL is the page of what a search has found. For a key, it is that of its payment: the key has a link of its own.
func foundURL(f operator.Found) string {
	switch f.Type {
	case operator.FoundPayment:
		return "/console/payments/" + f.ID
	case operator.FoundDeadLetter:
		return "/console/dead-letters/" + f.ID
	case operator.FoundRefund, operator.FoundKey:
	}
	return "/console/payments/" + f.PaymentID
}

// choiceName is a choice of a filter for people.
func choiceName(value string) string {
	switch value {
	case "":
		return "any"
	case "3600":
		return "an hour"
	case "86400":
		return "a day"
	case "604800":
		return "a week"
	}
	return value
}

// plural is the end of a word after a number.
func plural(n any) string {
	if fmt.Sprint(n) == "1" {
		return ""
	}
	return "s"
}
