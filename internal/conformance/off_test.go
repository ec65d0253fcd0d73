//go:build !conformance

package conformance_test

import (
	"testing"

	"drawbridge/internal/conformance"
)

func TestReleasesHaveNoFixtures(t *testing.T) {
	t.Parallel()
	if conformance.Extend != nil {
		t.Error("a build without the tag conformance extends the door")
	}
}
