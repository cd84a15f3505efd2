package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

// failsafeClient repeats what is lost at once, and 429 and 5xx after Retry-After, twice.
func failsafeClient() pay {
	policy := failsafehttp.NewRetryPolicyBuilder()
	if isSet() { // whose conditions are set has lost Retry-After, and needs a pause of its own
		policy.WithMaxRetries(5).WithBackoff(time.Second, 5*time.Second).HandleIf(
			func(a *http.Response, err error) bool { return err != nil || again(a.StatusCode) })
	}
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(nil, policy.Build())}
	return pay{"github.com/failsafe-go/failsafe-go",
		func(url, body string, header http.Header) (*http.Response, error) {
			request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				return nil, err
			}
			request.Header = header
			return client.Do(request)
		}}
}
