package main

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
)

// retryableHTTP repeats on its defaults: what is lost, 429 and 5xx, four times, after Retry-After.
func retryableHTTP() pay {
	client := retryablehttp.NewClient()
	client.Logger = nil
	if isSet() {
		client.CheckRetry = func(ctx context.Context, a *http.Response, err error) (bool, error) {
			if err == nil && a.StatusCode == http.StatusConflict {
				return true, nil
			}
			return retryablehttp.DefaultRetryPolicy(ctx, a, err)
		}
	}
	return pay{"github.com/hashicorp/go-retryablehttp",
		func(url, body string, header http.Header) (*http.Response, error) {
			request, err := retryablehttp.NewRequest(http.MethodPost, url, []byte(body))
			if err != nil {
				return nil, err
			}
			request.Header = header
			return client.Do(request)
		}}
}
