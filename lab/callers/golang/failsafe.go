package main

import (
	"net/http"
	"strings"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

// failsafeClient repeats what is lost at once, and 429 and 5xx after Retry-After, twice.
func failsafeClient() pay {
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(nil, failsafehttp.NewRetryPolicyBuilder().Build())}
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
