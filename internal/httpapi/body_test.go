package httpapi

import (
	"cmp"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	gocmp "github.com/google/go-cmp/cmp"

	"payonce/internal/payment"
	"payonce/internal/problem"
)

// take reads a body as POST /payments does.
func take(raw []byte) (payment.CreateRequest, *requestError) {
	var body paymentRequest
	if bad := decode(raw, &body); bad != nil {
		return payment.CreateRequest{}, bad
	}
	request, bad := body.toDomain()
	if bad == nil {
		bad = wrong(request.Validate()) // as Create does
	}
	return request, bad
}

// at says what is wrong and where, one line for each mistake.
func (r *requestError) at() []string {
	if r == nil {
		return nil
	}
	var lines []string
	for _, e := range r.errors {
		where := "(no pointer)"
		if e.Pointer != nil {
			where = *e.Pointer
		}
		lines = append(lines, where+" "+e.Detail)
	}
	slices.Sort(lines)
	return lines
}

const (
	notJSON    = "is not valid JSON"
	badUTF8    = "must be valid UTF-8"
	notAnInt   = "must be an integer, written without fraction and exponent"
	notAnObj   = "must be a JSON object"
	noNull     = "must not be null; leave out what has no value"
	noNUL      = "must not hold the character U+0000"
	unknown    = "is not a member of this request; names are case-sensitive"
	twice      = "is given twice"
	tooDeep    = "must not be nested deeper than 8 levels"
	mustEnd    = "must end after the object"
	outOfRange = "must be an integer from 1 to 999999999999, in the currency's minor unit"
	noPAN      = "must not hold a card number; send a PSP token as paymentMethod"
)

// with is the ordinary body with something done to it.
func with(from, to string) string {
	const ordinary = `{"customerId":"cus-1","amountCents":12000,"currency":"USD"}`
	if !strings.Contains(ordinary, from) {
		panic("nothing to replace: " + from)
	}
	return strings.Replace(ordinary, from, to, 1)
}

func and(member string) string { return with(`}`, `,`+member+`}`) }

func TestBodyIsStrictJSON(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, want string }{
		"nothing":                      {"", " " + notAnObj},
		"white space":                  {" \r\n\t", " " + notAnObj},
		"array":                        {`[]`, " " + notAnObj},
		"array around an object":       {`[` + with("", "") + `]`, " " + notAnObj},
		"number":                       {`1`, " " + notAnObj},
		"string":                       {`"{}"`, " " + notAnObj},
		"null":                         {`null`, " " + notAnObj},
		"true":                         {`true`, " " + notAnObj},
		"a word":                       {`hello`, " " + notJSON},
		"half an array":                {`[1`, " " + notJSON},
		"BOM":                          {"\ufeff" + with("", ""), " " + notJSON},
		"UTF-16":                       {"\xff\xfe{\x00}\x00", " " + notJSON},
		"form":                         {`customerId=cus-1`, " " + notJSON},
		"half an object":               {`{"customerId":"cus-1"`, " " + notJSON},
		"half a name":                  {`{"customerId`, " " + notJSON},
		"trailing comma":               {with(`}`, `,}`), " " + notJSON},
		"single quotes":                {`{'customerId':'cus-1'}`, " " + notJSON},
		"comment":                      {`{/**/}`, " " + notJSON},
		"leading zero":                 {with(`12000`, `012000`), " " + notJSON},
		"plus":                         {with(`12000`, `+12000`), "/amountCents " + notJSON},
		"hexadecimal":                  {with(`12000`, `0x2ee0`), " " + notJSON},
		"NaN":                          {with(`12000`, `NaN`), "/amountCents " + notJSON},
		"control character in text":    {and("\"description\":\"a\x01\""), "/description " + notJSON},
		"unknown escape":               {and(`"description":"\x41"`), "/description " + notJSON},
		"an object behind":             {with("", "") + `{}`, " " + mustEnd},
		"a bracket behind":             {with("", "") + `}`, " " + mustEnd},
		"text behind":                  {with("", "") + ` x`, " " + mustEnd},
		"U+0000 behind":                {with("", "") + "\x00", " " + mustEnd},
		"raw bytes that are not UTF-8": {and("\"description\":\"\xff\xfe\""), "/description " + badUTF8},
		"overlong encoding":            {and("\"description\":\"\xc0\xaf\""), "/description " + badUTF8},
		"encoded surrogate":            {and("\"description\":\"\xed\xa0\x80\""), "/description " + badUTF8},
		"cut sequence":                 {and("\"description\":\"\xe2\x82\""), "/description " + badUTF8},
		"name that is not UTF-8":       {and("\"\xff\":1"), " " + badUTF8},
		"lone high surrogate":          {and(`"description":"\ud800"`), "/description " + badUTF8},
		"lone low surrogate":           {and(`"description":"\udc00"`), "/description " + badUTF8},
		"surrogates in wrong order":    {and(`"description":"\udc00\ud800"`), "/description " + badUTF8},
		"U+0000 in a value":            {and(`"description":"a\u0000b"`), "/description " + noNUL},
		"U+0000 in a metadata value":   {and(`"metadata":{"order":"\u0000"}`), "/metadata/order " + noNUL},
		"U+0000 in a name":             {and(`"metadata":{"a\u0000":"b"}`), "/metadata " + noNUL},
		"UTF-8 in a name of no use":    {and(`"UTF-8":"a`), "/UTF-8 " + notJSON},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, bad := take([]byte(row.body))
			if diff := gocmp.Diff([]string{row.want}, bad.at()); diff != "" {
				t.Fatalf("refused otherwise (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEachMemberIsHeldToItsForm(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		body string
		want []string
	}{
		"all missing": {`{}`, []string{"/amountCents is required", "/currency is required",
			"/customerId is required"}},
		"unknown":                  {and(`"colour":"red"`), []string{"/colour " + unknown}},
		"another case":             {with(`"customerId"`, `"customerID"`), []string{"/customerID " + unknown}},
		"lower case":               {with(`"amountCents"`, `"amountcents"`), []string{"/amountcents " + unknown}},
		"upper case of one given":  {and(`"Currency":"USD"`), []string{"/Currency " + unknown}},
		"unknown name not shown":   {and(`"<b>x":1`), []string{" " + unknown}},
		"card number as a name":    {and(`"4111111111111111":1`), []string{" " + unknown}},
		"an empty name":            {and(`"":1`), []string{" " + unknown}},
		"a name too long to show":  {and(`"` + strings.Repeat("n", 41) + `":1`), []string{" " + unknown}},
		"duplicate":                {and(`"currency":"USD"`), []string{"/currency " + twice}},
		"duplicate by an escape":   {and(`"\u0063urrency":"USD"`), []string{"/currency " + twice}},
		"duplicate in metadata":    {and(`"metadata":{"a":"1","\u0061":"1"}`), []string{"/metadata/a " + twice}},
		"duplicate unknown":        {and(`"x":1,"x":1`), []string{"/x " + twice}},
		"null for a required one":  {with(`"cus-1"`, `null`), []string{"/customerId " + noNull}},
		"null for the amount":      {with(`12000`, `null`), []string{"/amountCents " + noNull}},
		"null for the currency":    {with(`"USD"`, `null`), []string{"/currency " + noNull}},
		"null for an optional one": {and(`"description":null`), []string{"/description " + noNull}},
		"null for metadata":        {and(`"metadata":null`), []string{"/metadata " + noNull}},
		"null in metadata":         {and(`"metadata":{"a":null}`), []string{"/metadata/a " + noNull}},
		"amount with a fraction":   {with(`12000`, `12000.5`), []string{"/amountCents " + notAnInt}},
		"amount with .0":           {with(`12000`, `12000.0`), []string{"/amountCents " + notAnInt}},
		"amount with an exponent":  {with(`12000`, `12e3`), []string{"/amountCents " + notAnInt}},
		"amount as a string":       {with(`12000`, `"12000"`), []string{"/amountCents " + notAnInt}},
		"amount as an object":      {with(`12000`, `{"value":12000}`), []string{"/amountCents " + notAnInt}},
		"amount as true":           {with(`12000`, `true`), []string{"/amountCents " + notAnInt}},
		"amount beyond 64 bits":    {with(`12000`, `9223372036854775808`), []string{"/amountCents " + notAnInt}},
		"amount of many digits":    {with(`12000`, strings.Repeat("9", 500)), []string{"/amountCents " + notAnInt}},
		"amount beyond 2^53":       {with(`12000`, `9007199254740993`), []string{"/amountCents " + outOfRange}},
		"one more than the most":   {with(`12000`, `1000000000000`), []string{"/amountCents " + outOfRange}},
		"zero":                     {with(`12000`, `0`), []string{"/amountCents " + outOfRange}},
		"minus zero":               {with(`12000`, `-0`), []string{"/amountCents " + outOfRange}},
		"negative":                 {with(`12000`, `-1`), []string{"/amountCents " + outOfRange}},
		"customer as a number":     {with(`"cus-1"`, `1`), []string{"/customerId must be a string"}},
		"customer as an array":     {with(`"cus-1"`, `["cus-1"]`), []string{"/customerId must be a string"}},
		"metadata as a string":     {and(`"metadata":"a=b"`), []string{"/metadata must be an object"}},
		"metadata as an array":     {and(`"metadata":[]`), []string{"/metadata must be an object"}},
		"number in metadata":       {and(`"metadata":{"a":1}`), []string{"/metadata/a must be a string"}},
		"object in metadata":       {and(`"metadata":{"a":{}}`), []string{"/metadata/a must be a string"}},
		"empty payment method": {and(`"paymentMethod":""`),
			[]string{"/paymentMethod must not be empty; leave it out for the default"}},
		"card number as customer":  {with(`cus-1`, `4111111111111111`), []string{"/customerId " + noPAN}},
		"empty reference":          {and(`"reference":""`), []string{"/reference must not be empty; leave it out"}},
		"null as reference":        {and(`"reference":null`), []string{"/reference " + noNull}},
		"card number as reference": {and(`"reference":"4111111111111111"`), []string{"/reference " + noPAN}},
		"card number in a text": {and(`"description":"card 4111 1111 1111 1111."`),
			[]string{"/description " + noPAN}},
		"card number in metadata": {and(`"metadata":{"a":"5555-5555-5555-4444"}`), []string{"/metadata/a " + noPAN}},
		"card number as pm":       {and(`"paymentMethod":"pm_4111111111111111"`), []string{"/paymentMethod " + noPAN}},
		"card number in a key": {and(`"metadata":{"4111111111111111":"a"}`),
			[]string{"/metadata each name must be 1 to 40 letters, digits or . _ -, and no card number"}},
		"everything wrong at once": {`{"customerId":"a b","amountCents":0,"currency":"usd","paymentMethod":"visa"}`,
			[]string{
				"/amountCents " + outOfRange, "/currency must be an ISO 4217 code in use, in upper case, such as USD",
				"/customerId must be 1 to 64 letters, digits or . _ : -",
				"/paymentMethod must be a PSP token: pm_ and up to 61 letters, digits or underscores",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, bad := take([]byte(row.body))
			if diff := gocmp.Diff(row.want, bad.at()); diff != "" {
				t.Fatalf("refused otherwise (-want +got):\n%s", diff)
			}
			if bad.code != problem.InvalidRequest {
				t.Fatalf("code %s", bad.code)
			}
		})
	}
}

func TestSpellingDoesNotMatter(t *testing.T) {
	t.Parallel()
	plain := payment.CreateRequest{CustomerID: "cus-1", AmountCents: 12000, Currency: "USD", PaymentMethod: "pm_ok"}
	told := plain
	told.Reference = "order 42"
	told.Description, told.Metadata = "caf\u00e9 \U0001f600\n", map[string]string{"order": "42"}
	for name, row := range map[string]struct {
		body string
		want payment.CreateRequest
	}{
		"ordinary":            {with("", ""), plain},
		"another order":       {`{"currency":"USD","amountCents":12000,"customerId":"cus-1"}`, plain},
		"white space":         {" {\n\t\"customerId\" : \"cus-1\" ,\r\n\"amountCents\":12000 , \"currency\":\"USD\"} \n", plain},
		"escaped names":       {with(`"currency"`, `"\u0063urrency"`), plain},
		"default written out": {and(`"paymentMethod":"pm_ok"`), plain},
		"empty description":   {and(`"description":""`), plain},
		"text by escapes":     {and(`"reference":"order\u002042","description":"caf\u00e9 \ud83d\ude00\n","metadata":{"order":"42"}`), told},
		"text as it is":       {and("\"reference\":\"order 42\",\"metadata\":{\"\\u006frder\":\"42\"},\"description\":\"caf\u00e9 \U0001f600\\u000a\""), told},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, bad := take([]byte(row.body))
			if bad != nil {
				t.Fatalf("refused: %v", bad.at())
			}
			if diff := gocmp.Diff(row.want, got); diff != "" {
				t.Fatalf("read otherwise (-want +got):\n%s", diff)
			}
		})
	}
	empty, bad := take([]byte(and(`"metadata":{}`)))
	if bad != nil || len(empty.Metadata) != 0 {
		t.Fatalf("empty metadata: %v %v", empty, bad.at())
	}
	most, bad := take([]byte(with(`12000`, `999999999999`)))
	if bad != nil || most.AmountCents != payment.MaxAmount {
		t.Fatalf("the largest amount: %v %v", most, bad.at())
	}
}

func TestNestingIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(levels int) []byte {
		return []byte(strings.Repeat(`{"a":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1))
	}
	if bad := checkSyntax(nested(8)); bad != nil {
		t.Fatalf("8 levels are refused: %v", bad.at())
	}
	arrays := func(levels int) []byte {
		return []byte(`{"a":` + strings.Repeat(`[`, levels-1) + strings.Repeat(`]`, levels-1) + `}`)
	}
	if bad := checkSyntax(arrays(8)); bad != nil {
		t.Fatalf("8 levels with arrays are refused: %v", bad.at())
	}
	for _, raw := range [][]byte{nested(9), arrays(9), nested(2000), []byte(`{"a":` + strings.Repeat(`[`, 16000))} {
		if diff := gocmp.Diff([]string{" " + tooDeep}, checkSyntax(raw).at()); diff != "" {
			t.Fatalf("refused otherwise (-want +got):\n%s", diff)
		}
	}
}

func TestRefundWithoutAnAmountIsNotOneWithNull(t *testing.T) {
	t.Parallel()
	var none refundRequest
	if bad := decode([]byte(`{}`), &none); bad != nil || none.AmountCents != nil {
		t.Fatalf("%v %v", none, bad.at())
	}
	var null refundRequest
	bad := decode([]byte(`{"amountCents":null}`), &null)
	if diff := gocmp.Diff([]string{"/amountCents " + noNull}, bad.at()); diff != "" {
		t.Fatalf("refused otherwise (-want +got):\n%s", diff)
	}
}

func TestBodyMustSayThatItIsJSON(t *testing.T) {
	t.Parallel()
	for contentType, taken := range map[string]bool{
		"application/json":                                true,
		"Application/JSON":                                true,
		"application/json; charset=utf-8":                 true,
		`application/json;charset="UTF-8"`:                true,
		"application/json; q=1":                           true,
		"":                                                false,
		"text/plain":                                      false,
		"text/json":                                       false,
		"application/json+x":                              false,
		"application/jsonp":                               false,
		"application/problem+json":                        false,
		"application/x-www-form-urlencoded":               false,
		"application/json; charset=latin1":                false,
		"application/json; charset=utf-16":                false,
		"application/json; charset=":                      false,
		"application/json; charset=utf-8; charset=latin1": false,
		"application/json, text/plain":                    false,
	} {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(`{}`))
		r.Header["Content-Type"] = []string{contentType}
		bad := readBody(httptest.NewRecorder(), r, &refundRequest{})
		if got := bad == nil; got != taken || (bad != nil && bad.code != problem.UnsupportedMediaType) {
			t.Errorf("%q: taken %v, want %v: %+v", contentType, got, taken, bad)
		}
	}
	for _, encoding := range []string{"gzip", "br", "identity", "GZIP, deflate"} {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(`{}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Content-Encoding", encoding)
		if bad := readBody(httptest.NewRecorder(), r, &refundRequest{}); bad == nil ||
			bad.code != problem.UnsupportedMediaType {
			t.Errorf("Content-Encoding %s: %+v", encoding, bad)
		}
	}
}

func TestBodyMayHave16KiBAndNoMore(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]problem.Code{16 << 10: "", 16<<10 + 1: problem.BodyTooLarge,
		1 << 20: problem.BodyTooLarge} {
		raw := `{` + strings.Repeat(" ", size-2) + `}`
		for name, body := range map[string]io.Reader{"whole": strings.NewReader(raw),
			"in pieces": iotest.OneByteReader(strings.NewReader(raw))} {
			r := httptest.NewRequest("POST", "/payments", body)
			r.Header.Set("Content-Type", "application/json")
			bad := readBody(httptest.NewRecorder(), r, &refundRequest{})
			got := problem.Code("")
			if bad != nil {
				got = bad.code
			}
			if got != want {
				t.Errorf("%d bytes %s: code %q, want %q", size, name, got, want)
			}
		}
	}
}

func TestBodyThatBreaksOffIsInvalid(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/payments",
		io.MultiReader(strings.NewReader(`{"a`), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Content-Type", "application/json")
	bad := readBody(httptest.NewRecorder(), r, &refundRequest{})
	if bad == nil || bad.code != problem.InvalidRequest ||
		cmp.Compare(fmt.Sprint(bad.at()), "[ could not be read to its end]") != 0 {
		t.Fatalf("%+v", bad)
	}
}
