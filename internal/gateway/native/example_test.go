package native_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
)

// A webhook is signed as in Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over its id, its
// timestamp and its body, byte for byte.
func ExampleClient_VerifyEvent() {
	secret := []byte("twenty-four bytes or more")
	now := func() time.Time { return time.Unix(1_795_000_000, 0) }
	psp, err := native.New("http://psp.test", "secret of the API", gateway.DefaultLimits(),
		[]string{"whsec_" + base64.StdEncoding.EncodeToString(secret)}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	const id, timestamp, body = "evt_1", "1795000000", `{"type":"charge.succeeded"}`
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)
	header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))

	_, err = psp.VerifyEvent(header, []byte(body))
	fmt.Println("as it was sent:", err)
	_, err = psp.VerifyEvent(header, []byte(body+" "))
	fmt.Println("one space more:", err)
	// Output:
	// as it was sent: <nil>
	// one space more: webhook signature does not match
}
