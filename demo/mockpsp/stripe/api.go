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

const (
	metadataMember = "metadata[key]"
	expandMember   = "expand[]"
)

// endpoints are all that the dialect does.
func endpoints() []endpoint {
	capture := oneOf("automatic", "automatic_async")
	return []endpoint{{
		route: "POST /v1/payment_intents", does: "makes an intent, which moves no money", shows: "payment_intent",
		write: (*Server).createIntent, takes: map[string]form{
			"amount": integer, "currency": currency, "payment_method": method, "confirm": oneOf("false"),
			"capture_method": capture, "payment_method_types[]": oneOf("card", "us_bank_account"),
			"automatic_payment_methods[enabled]":         boolean,
			"automatic_payment_methods[allow_redirects]": oneOf("always", "never"),
			"description": text, metadataMember: metadata,
		},
	}, {
		route: "GET /v1/payment_intents", does: "lists intents", shows: "list of payment_intent",
		read: (*Server).listIntents, takes: listed(nil),
	}, {
		route: "GET /v1/payment_intents/search", does: "finds intents by their metadata, a minute later",
		shows: "list of payment_intent", read: (*Server).searchIntents,
		takes: map[string]form{"limit": pageSize, "page": text, "query": metadataQuery},
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
		route: "GET /v1/charges", does: "lists charges", shows: "list of charge",
		read: (*Server).listCharges, takes: listed(map[string]form{"payment_intent": text}),
	}, {
		route: "POST /v1/refunds", does: "gives money back", shows: "refund",
		write: (*Server).createRefund, takes: map[string]form{
			"payment_intent": text, "amount": integer, "reason": reason, metadataMember: metadata,
		},
	}, {
		route: "GET /v1/refunds", does: "lists refunds", shows: "list of refund",
		read: (*Server).listRefunds, takes: listed(map[string]form{"payment_intent": text}),
	}, {
		route: "GET /v1/balance_transactions", does: "lists movements of the balance",
		shows: "list of balance_transaction", read: (*Server).listTransactions, takes: listed(nil),
	}}
}

// listed are the parameters of a list: its own, and those of all lists.
func listed(own map[string]form) map[string]form {
	all := map[string]form{"limit": pageSize, "starting_after": text, "created[gte]": second, "created[lt]": second}
	maps.Copy(all, own)
	return all
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
			if value == "" && f.says != metadata.says {
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
