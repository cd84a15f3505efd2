package cardnumber

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Good keys are UUIDs and timestamps. Of those, at most one in a million may be refused: by the rule of three, none of
// three million says so with 95 % certainty. The numbers are the same in each run, so the tests cannot fail by chance.
const tries = 3_000_000

func source() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{}) }

func TestFewerThanOneInAMillionUUIDsIsTakenForACard(t *testing.T) {
	t.Parallel()
	random := source()
	for range tries / 6 {
		v4, err4 := uuid.NewRandomFromReader(random)
		v7, err7 := uuid.NewV7FromReader(random)
		if err4 != nil || err7 != nil {
			t.Fatal(err4, err7)
		}
		for _, id := range []string{v4.String(), v7.String()} {
			hex := strings.ReplaceAll(id, "-", "")
			for _, s := range []string{id, hex, "order-" + hex} {
				if In(s) {
					t.Fatalf("In(%q) = true", s)
				}
			}
		}
	}
}

// forms are how programs write a time.
var forms = []func(time.Time) string{
	func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) },
	func(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) },
	func(t time.Time) string { return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000) },
	func(t time.Time) string { return t.Format(time.RFC3339Nano) },
	func(t time.Time) string { return t.Format("2006-01-02 15:04:05.000000") },
	func(t time.Time) string { return t.Format("20060102150405") },
	func(t time.Time) string { return strings.Replace(t.Format("20060102150405.000"), ".", "", 1) },
	func(t time.Time) string { return strings.Replace(t.Format("20060102150405.000000"), ".", "", 1) },
	func(t time.Time) string { return t.Format("20060102-150405") },
	func(t time.Time) string { return t.Format("20060102T150405.000Z") },
	func(t time.Time) string { return t.Format("2006-01-02-15-04-05") },
	func(t time.Time) string { return t.Format("02012006150405") },
	func(t time.Time) string { return t.Format("01022006150405") },
	func(t time.Time) string { return t.Format("060102150405") },
	func(t time.Time) string { return strings.Replace(t.Format("060102150405.000"), ".", "", 1) },
	func(t time.Time) string { return t.Format(time.RFC1123) },
}

// The instants are those of 2001 to 2033, when Unix time has ten digits and begins with 1.
func TestFewerThanOneInAMillionTimestampsIsTakenForACard(t *testing.T) {
	t.Parallel()
	random := rand.New(source())
	for n := range tries {
		at := time.Unix(1_000_000_000+random.Int64N(1_000_000_000), random.Int64N(1_000_000_000)).UTC()
		stamp := forms[n%len(forms)](at)
		if n%2 == 0 {
			stamp = "order-" + stamp + "-" + strconv.Itoa(random.IntN(10))
		}
		if In(stamp) {
			t.Fatalf("In(%q) = true", stamp)
		}
	}
}
