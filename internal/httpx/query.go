package httpx

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// ReadQuery returns the values of a request's query. A key that is not known or that is
// given twice is an error, because two programs may take different ones of the values. A
// known key that ends with * may be repeated. The error's text is safe to show.
func ReadQuery(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query is not well encoded; separate its keys with & and encode other characters as %XX")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		repeats := slices.Contains(known, key+"*")
		switch {
		case !repeats && !slices.Contains(known, key):
			return nil, unknownKey(key, known)
		case !repeats && len(values[key]) > 1:
			return nil, fmt.Errorf("query parameter %q is given twice; give it once", key)
		}
	}
	return values, nil
}

func unknownKey(key string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("unknown query parameter %+.60q; this path takes none, so leave the query out", key)
	}
	return fmt.Errorf("unknown query parameter %+.60q; known here: %s", key, strings.ReplaceAll(strings.Join(known, ", "), "*", ""))
}
