package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// limits are lengths that a provider may allow: the shortest that there is room for, and some of real ones.
var limits = []int{30, 40, 64, 255}

// ourKeys are the keys that we send to a PSP: a client's own, or a later generation of it.
func ourKeys() *rapid.Generator[string] {
	clients := rapid.Custom(func(t *rapid.T) string {
		stem := "order-0000000042" + rapid.StringMatching(`[!-+\--~]{0,40}`).Draw(t, "stem")
		length := rapid.SampledFrom([]int{16, 30, 31, 40, 41, 64, 65, 254, 255}).Draw(t, "length")
		return (stem + strings.Repeat("-key/", 51))[:length]
	}).Filter(func(s string) bool {
		_, err := idempotency.ParseKey(s)
		return err == nil
	})
	return rapid.Custom(func(t *rapid.T) string {
		key, err := idempotency.ParseKey(clients.Draw(t, "client's key"))
		if err != nil {
			t.Fatal(err)
		}
		generation := rapid.SampledFrom([]int32{1, 1, 2, 12, 1<<31 - 1}).Draw(t, "generation")
		return idempotency.Execution{Ref: idempotency.Ref{Key: key}, Generation: generation}.PassThroughKey()
	})
}

func TestKeyThatFitsIsSentAsItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, longest := ourKeys().Draw(t, "key"), rapid.SampledFrom(limits).Draw(t, "limit")
		sent := gateway.FitKey(key, longest)
		if len(key) <= longest && sent != key {
			t.Fatalf("%q is sent as %q, and has room in %d", key, sent, longest)
		}
		if len(sent) > longest {
			t.Fatalf("%q is sent as %q, which does not fit in %d", key, sent, longest)
		}
		if sent != gateway.FitKey(key, longest) {
			t.Fatalf("%q is sent as another key the second time", key)
		}
		if again := gateway.FitKey(sent, longest); again != sent {
			t.Fatalf("%q is sent as %q, and that as %q", key, sent, again)
		}
	})
	for _, longest := range limits {
		key := strings.Repeat("k", longest)
		if sent := gateway.FitKey(key, longest); sent != key {
			t.Errorf("a key of exactly %d characters is sent as %q", longest, sent)
		}
	}
}

// A key that is only cut off would make the second payment a replay of the first.
func TestKeysThatDifferBehindTheLimitStayDifferent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		longest := rapid.SampledFrom(limits).Draw(t, "limit")
		begin := rapid.StringOfN(rapid.RuneFrom([]rune("abc.g0123456789-_")), longest, longest, -1).Draw(t, "beginning")
		ends := rapid.SliceOfNDistinct(rapid.StringMatching(`[!-~]{0,40}`), 2, 2, rapid.ID[string]).Draw(t, "ends")
		one, other := gateway.FitKey(begin+ends[0], longest), gateway.FitKey(begin+ends[1], longest)
		if one == other || len(one) > longest || len(other) > longest {
			t.Fatalf("%q and %q are sent as %q and %q", begin+ends[0], begin+ends[1], one, other)
		}
	})
}

// A key that was replaced by its hash is no key of ours: it can stand for no other operation, and cannot be read back.
func TestHashedKeyIsNoKeyOfOurs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, longest := ourKeys().Draw(t, "key"), rapid.SampledFrom(limits).Draw(t, "limit")
		sent := gateway.FitKey(key, longest)
		if len(key) <= longest {
			return
		}
		if _, err := idempotency.ParseKey(sent); err == nil {
			t.Fatalf("%q is sent as %q, which a client may send, too", key, sent)
		}
		if of, generation, err := idempotency.ParsePassThrough(sent); err == nil {
			t.Fatalf("%q is sent as %q, which is generation %d of %q", key, sent, generation, of)
		}
		if !strings.HasSuffix(sent, ".g0") || !gateway.IsID(sent) || len(sent) < 30 {
			t.Fatalf("%q is sent as %q", key, sent)
		}
	})
}

// The hash is stored by the PSP: another hash of the same key would be another payment.
func TestHashOfAKeyNeverChanges(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 256)
	const hash = "zhb-eCCKTpP3FY5iOTaA4CWyrVhPTodc6QOmVLt0z5M" // SHA-256, base64url
	for longest, want := range map[int]string{
		30: hash[:27] + ".g0", 40: hash[:37] + ".g0", 46: hash + ".g0", 64: hash + ".g0", 255: hash + ".g0",
	} {
		if got := gateway.FitKey(key, longest); got != want {
			t.Errorf("in %d characters: %q, want %q", longest, got, want)
		}
	}
}

func TestLimitWithoutRoomForAHashPanics(t *testing.T) {
	t.Parallel()
	for _, longest := range []int{29, 16, 0, -1} {
		t.Run(fmt.Sprint(longest), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Fatal("it does not panic")
				}
			}()
			gateway.FitKey("short", longest) // even for a key that fits
		})
	}
}
