package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"drawbridge/internal/httpx"
	"drawbridge/openai/cursor/wire"
)

const (
	// fetchFor bounds one page in time, and maxPage in bytes.
	fetchFor = time.Minute
	maxPage  = 4 << 20
)

var pages = httpx.NewClient(4, nil)

func (h hands) fetch(url string) *deed {
	result := func(r *wire.FetchResult) *wire.ExecClientMessage {
		return &wire.ExecClientMessage{Message: &wire.ExecClientMessage_FetchResult{FetchResult: r}}
	}
	fail := func(why string) *wire.ExecClientMessage {
		return result(&wire.FetchResult{Result: &wire.FetchResult_Error{Error: &wire.FetchError{Url: url, Error: why}}})
	}
	return &deed{
		kind: acp.ToolKindFetch, title: "Fetch " + url, input: map[string]any{"url": url}, refuse: fail,
		do: func(ctx context.Context, say func(*wire.ExecClientMessage)) string {
			done, err := page(ctx, url)
			if err != nil {
				return one(say, fail(err.Error()), err.Error())
			}
			return one(say, result(&wire.FetchResult{Result: &wire.FetchResult_Success{Success: done}}), "")
		},
	}
}

// page reads one page. A redirect is followed on its host alone, because the question named that host.
func page(ctx context.Context, url string) (*wire.FetchSuccess, error) {
	ctx, stop := context.WithTimeout(ctx, fetchFor)
	defer stop()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := *pages
	client.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if next.URL.Host != q.URL.Host || len(before) >= 10 {
			return fmt.Errorf("the page redirects to %s; fetch that address", next.URL.Redacted())
		}
		return nil
	}
	resp, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPage {
		return nil, fmt.Errorf("the page has more than %d bytes; fetch a smaller one", maxPage)
	}
	return &wire.FetchSuccess{Url: url, Content: strings.ToValidUTF8(string(data), "\ufffd"), StatusCode: int32(resp.StatusCode), ContentType: resp.Header.Get("Content-Type")}, nil
}
