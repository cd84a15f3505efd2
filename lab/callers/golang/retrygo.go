package main

import (
	"net/http"

	"github.com/avast/retry-go/v4"
)

// retryGo has retry-go around net/http, as its page shows it: only what is lost is an error, and is repeated.
func retryGo() pay {
	once := netHTTP()
	return pay{"github.com/avast/retry-go/v4", func(url, body string, header http.Header) (*http.Response, error) {
		return retry.DoWithData(func() (*http.Response, error) { return once.post(url, body, header) })
	}}
}
