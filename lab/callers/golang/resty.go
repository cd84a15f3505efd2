package main

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"
)

// restyClient repeats what is lost, three times. An answer is final to it.
func restyClient() pay {
	client := resty.New().SetRetryCount(3)
	if isSet() {
		client.SetRetryCount(5).SetRetryWaitTime(time.Second).AddRetryCondition(
			func(a *resty.Response, err error) bool { return err != nil || again(a.StatusCode()) })
	}
	return pay{"github.com/go-resty/resty/v2", func(url, body string, header http.Header) (*http.Response, error) {
		answer, err := client.R().SetHeaderMultiValues(header).SetBody(body).Post(url)
		if err != nil {
			return nil, err
		}
		answer.RawResponse.Body = io.NopCloser(strings.NewReader(answer.String()))
		return answer.RawResponse, nil
	}}
}
