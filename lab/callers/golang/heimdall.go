package main

import (
	"net/http"
	"strings"
	"time"

	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
)

// heimdallClient repeats what is lost and 5xx, three times, and does not read Retry-After.
func heimdallClient() pay {
	client := httpclient.NewClient(httpclient.WithRetryCount(3), httpclient.WithRetrier(
		heimdall.NewRetrier(heimdall.NewConstantBackoff(200*time.Millisecond, 100*time.Millisecond))))
	return pay{"github.com/gojek/heimdall/v7", func(url, body string, header http.Header) (*http.Response, error) {
		return client.Post(url, strings.NewReader(body), header)
	}}
}
