package httpapi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/payment"
	"payonce/internal/payments"
)

// parameters says what is wrong with a query, one line for each mistake.
func (r *requestError) parameters() []string {
	if r == nil {
		return nil
	}
	var lines []string
	for _, e := range r.errors {
		lines = append(lines, e.Parameter+" "+e.Detail)
	}
	slices.Sort(lines)
	return lines
}

const (
	noCustomer = "customerId must be 1 to 64 letters, digits or . _ : -"
	noRef      = "reference must be 1 to 100 characters, and no control characters"
	noStatus   = "status must be processing, succeeded, declined or failed"
	noLimit    = "limit must be an integer from 1 to 100"
	noCursor   = "cursor must be the nextCursor of an earlier page"
	noQuery    = "query is not a valid query string"
	noAfter    = "createdAfter must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z"
	noBefore   = "createdBefore must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z"
	noLater    = "createdBefore must be later than createdAfter"
	noName     = "query has a parameter other than customerId, reference, status, createdAfter, createdBefore, limit, cursor"
)

func TestFilterIsReadFromTheQuery(t *testing.T) {
	t.Parallel()
	id := payment.ID(uuid.MustParse("0192d6b4-7c41-7c3a-9d0e-5a1f0c9b2d44"))
	long := strings.Repeat("c", 64)
	nine := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	later := nine.Add(time.Microsecond)
	for query, want := range map[string]payments.Filter{
		"":                                  {Limit: 20},
		"limit=1":                           {Limit: 1},
		"limit=100":                         {Limit: 100},
		"status=processing":                 {Limit: 20, Status: payment.Processing},
		"status=succeeded":                  {Limit: 20, Status: payment.Succeeded},
		"status=declined":                   {Limit: 20, Status: payment.Declined},
		"status=failed":                     {Limit: 20, Status: payment.Failed},
		"customerId=cus%3A1":                {Limit: 20, CustomerID: "cus:1"},
		"customerId=" + long:                {Limit: 20, CustomerID: long},
		"reference=caf%C3%A9%20%2342":       {Limit: 20, Reference: "café #42"},
		"createdAfter=2026-11-20T09:30:00Z": {Limit: 20, CreatedAfter: &nine},
		"createdAfter=2026-11-20T10:30:00.000%2B01:00&createdBefore=2026-11-20T09:30:00.000001Z": {
			Limit: 20, CreatedAfter: &nine, CreatedBefore: &later},
		"cursor=" + id.String(): {Limit: 20, Before: &id},
		"customerId=a&reference=b&status=failed&limit=7&cursor=" +
			id.String(): {Limit: 7, CustomerID: "a", Reference: "b", Status: payment.Failed, Before: &id},
	} {
		got, bad := filterOf(query)
		if bad != nil {
			t.Errorf("%q is refused: %v", query, bad.parameters())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q is read otherwise (-want +got):\n%s", query, diff)
		}
	}
}

func TestFilterThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		"customerId=":                            {noCustomer},
		"customerId":                             {noCustomer},
		"customerId=" + strings.Repeat("c", 65):  {noCustomer},
		"customerId=a%20b":                       {noCustomer},
		"customerId=%00":                         {noCustomer},
		"customerId=%ff":                         {noCustomer},
		"customerId=caf%C3%A9":                   {noCustomer},
		"reference=":                             {noRef},
		"reference=" + strings.Repeat("é", 101):  {noRef},
		"reference=a%0Ab":                        {noRef},
		"reference=%00":                          {noRef},
		"reference=%ff":                          {noRef},
		"reference=a&reference=b":                {"reference is given twice"},
		"status=":                                {noStatus},
		"status=Succeeded":                       {noStatus},
		"status=succeeded,failed":                {noStatus},
		"limit=0":                                {noLimit},
		"limit=101":                              {noLimit},
		"limit=-1":                               {noLimit},
		"limit=1.0":                              {noLimit},
		"limit=1e1":                              {noLimit},
		"limit=":                                 {noLimit},
		"limit=99999999999999999999":             {noLimit},
		"createdAfter=":                          {noAfter},
		"createdAfter=2026-11-20":                {noAfter},
		"createdAfter=2026-11-20T09:30:00":       {noAfter},
		"createdAfter=2026-11-20T09:30:00+01:00": {noAfter}, // The plus is a space.
		"createdBefore=2026-02-30T09:30:00Z":     {noBefore},
		"createdBefore=1795167000":               {noBefore},
		"createdAfter=2026-11-20T09:30:00Z&createdBefore=2026-11-20T09:30:00Z": {noLater},
		"cursor=":                               {noCursor},
		"cursor=pay_":                           {noCursor},
		"cursor=re_00000000000000000000000000":  {noCursor},
		"cursor=pay_0000000000000000000000000u": {noCursor},
		"limit=1&limit=1":                       {"limit is given twice"},
		"status=failed&status=declined":         {"status is given twice"},
		"customerId=a&customerId=b":             {"customerId is given twice"},
		"offset=1":                              {noName},
		"Limit=1":                               {noName},
		"customerid=a":                          {noName},
		"=1":                                    {noName},
		"secret-name=1&secret-name=2":           {noName},
		"a=1&b=2&c=3":                           {noName},
		"a;b":                                   {noQuery},
		"limit=%zz":                             {noQuery},
		"limit=1&%":                             {noQuery},
		"limit=0&status=x&customerId=%00&x=1":   {noCustomer, noLimit, noName, noStatus},
	} {
		_, bad := filterOf(query)
		if diff := cmp.Diff(want, bad.parameters()); diff != "" {
			t.Errorf("%q is refused otherwise (-want +got):\n%s", query, diff)
		}
	}
}

func TestOperationIsReadFromTheQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": payment.CreateOperation, "operation=POST+/payments": payment.CreateOperation,
		"operation=POST%20%2Fpayments":                payment.CreateOperation,
		"operation=POST%20/payments/%7Bid%7D/refunds": payment.RefundOperation,
	} {
		if got, bad := operationOf(query); got != want || bad != nil {
			t.Errorf("%q is %q, %v", query, got, bad.parameters())
		}
	}
	const form = "operation must be POST /payments or POST /payments/{id}/refunds"
	for query, want := range map[string][]string{
		"operation=":              {form},
		"operation=GET+/payments": {form},
		"operation=POST+/payments&operation=POST+/payments": {"operation is given twice"},
		"op=x": {"query has a parameter other than operation"},
		"%":    {noQuery},
	} {
		_, bad := operationOf(query)
		if diff := cmp.Diff(want, bad.parameters()); diff != "" {
			t.Errorf("%q is refused otherwise (-want +got):\n%s", query, diff)
		}
	}
}
