package stripe

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// endpoint is one thing that the dialect does. What its row does not take is refused by name, so that nothing is
// ignored. docs/mock_stripe.md is made of the rows.
type endpoint struct {
	route string // of [http.ServeMux]
	does  string
	shows string // the kind of its objects, whose members may be expanded; see expandable
	takes map[string]form
	// One of the two. A write is executed under the key of its request.
	read  func(*Server, *call) (reply, error)
	write func(*Server, *call) (execute func() (reply, error), err error)
}

const metadataMember, expandMember = "metadata[key]", "expand[]"

// endpoints are all that the dialect does.
func endpoints() []endpoint {
	capture, amount := oneOf("automatic", "automatic_async"), number(1, maxAmount)
	method := form{"a token below, or `pm_` and 24 letters or digits, as Stripe's ids", checkMethod}
	metadata := form{"text; keys of up to 40 characters, values of up to 500", checkMetadata}
	return []endpoint{{
		route: "POST /v1/payment_intents", does: "makes an intent, which moves no money", shows: "payment_intent",
		write: (*Server).createIntent, takes: map[string]form{
			"amount": amount, "currency": {"a currency of Stripe's, in lower case", checkCurrency},
			"payment_method": method, "confirm": oneOf("false"), "capture_method": capture,
			"payment_method_types[]":                     oneOf("card", "us_bank_account"),
			"automatic_payment_methods[enabled]":         oneOf("true", "false"),
			"automatic_payment_methods[allow_redirects]": oneOf("always", "never"),
			"description": text(), metadataMember: metadata,
		},
	}, {
		route: "GET /v1/payment_intents/search", does: "finds intents by their metadata, a minute later",
		shows: "list of payment_intent", read: (*Server).searchIntents,
		takes: map[string]form{"limit": number(1, maxLimit), "page": text(),
			"query": {"`metadata['key']:'value'`", checkQuery}},
	}, {
		route: "GET /v1/payment_intents/{id}", does: "reads an intent", shows: "payment_intent",
		read: (*Server).getIntent,
	}, {
		route: "POST /v1/payment_intents/{id}/confirm", does: "executes an intent", shows: "payment_intent",
		write: (*Server).confirmIntent, takes: map[string]form{
			"payment_method": method, "capture_method": {"that of the intent", capture.check},
		},
	}, {
		route: "POST /v1/payment_intents/{id}/cancel", does: "makes sure that an intent is never executed",
		shows: "payment_intent", write: (*Server).cancelIntent, takes: map[string]form{
			"cancellation_reason": oneOf("duplicate", "fraudulent", "requested_by_customer", "abandoned"),
		},
	}, {
		route: "POST /v1/refunds", does: "gives money back", shows: "refund",
		write: (*Server).createRefund, takes: map[string]form{
			"payment_intent": text(), "amount": amount, "reason": reason(), metadataMember: metadata,
		},
	}, {
		route: "GET /v1/disputes/{id}", does: "reads a dispute", shows: "dispute", read: (*Server).getDispute,
	}, {
		route: "POST /v1/disputes/{id}", does: "takes evidence, and brings it to the bank", shows: "dispute",
		write: (*Server).updateDispute, takes: map[string]form{
			"evidence[uncategorized_text]": {"any text; `" + winningEvidence + "` and `" + losingEvidence + "` decide",
				text().check},
			"submit": oneOf("true", "false"), metadataMember: metadata,
		},
	}, {
		route: "POST /v1/disputes/{id}/close", does: "gives a dispute up, which is lost then", shows: "dispute",
		write: (*Server).closeDispute,
	},
		lists("payment_intent", func(b *book) series[*intent] { return b.intents }, nil),
		lists("charge", func(b *book) series[*charge] { return b.charges }, map[string]form{"payment_intent": text()}),
		lists("refund", func(b *book) series[*refund] { return b.refunds }, map[string]form{"payment_intent": text()}),
		lists("dispute", func(b *book) series[*dispute] { return b.disputes },
			map[string]form{"payment_intent": text()}),
		lists("balance_transaction", func(b *book) series[*transaction] { return b.transactions },
			map[string]form{"payout": text()}),
	}
}

// lists is the row of a list, with the parameters of all lists.
func lists[T member](kind string, of func(*book) series[T], own map[string]form) endpoint {
	takes := map[string]form{"limit": number(1, maxLimit), "starting_after": text(),
		"created[gte]": number(0, maxAmount), "created[lt]": number(0, maxAmount)}
	maps.Copy(takes, own)
	return endpoint{route: "GET /v1/" + kind + "s", does: "lists objects, newest first", shows: "list of " + kind,
		read: list(of), takes: takes}
}

// version is a version of the API whose objects are those of the mock: between these release trains, they differ in
// nothing that it shows.
var version = regexp.MustCompile(`^20\d\d-\d\d-\d\d\.(basil|clover|dahlia|endive)$`)

// indexed is the end of the name of a list's parameter, as most libraries of Stripe send it.
var indexed = regexp.MustCompile(`\[\d*\]$`)

// formOf returns what a parameter may be.
func (e endpoint) formOf(name string) (f form, taken bool) {
	name = indexed.ReplaceAllString(name, "[]")
	switch {
	case name == expandMember:
		return expansion(e.shows), true
	case strings.HasPrefix(name, "metadata[") && strings.HasSuffix(name, "]"):
		name = metadataMember
	}
	f, taken = e.takes[name]
	return f, taken
}

// check refuses what the endpoint does not take. Of several parameters, the first by name is said.
func (e endpoint) check(p *params) error {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		f, taken := e.formOf(name)
		if !taken {
			return invalidCode("parameter_unknown", name, "Received unknown parameter: "+name)
		}
		for _, value := range p.values[name] {
			if value == "" && !strings.HasPrefix(name, "metadata[") {
				return invalidCode("parameter_invalid_empty", name, "You passed an empty string for '"+name+"'.")
			}
			if err := f.check(name, value); err != nil {
				return err
			}
		}
	}
	if len(p.metadata()) > maxMetadata {
		return invalid("metadata", fmt.Sprintf("You can have up to %d keys of metadata.", maxMetadata))
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, e := range endpoints() {
		handle := s.keyed(e)
		if e.read != nil {
			handle = func(c *call) (reply, error) { return e.read(s, c) }
		}
		mux.Handle(e.route, s.v1(e.check, handle))
	}
	mux.Handle("/", s.v1(func(*params) error { return nil }, func(c *call) (reply, error) {
		return reply{}, apiError{status: http.StatusNotFound, kind: invalidRequest,
			message: "Unrecognized request URL (" + c.r.Method + ": " + c.r.URL.Path + ")."}
	}))
	return mux
}
