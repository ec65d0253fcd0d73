package alerts

import "context"

// Sign is sign, and PerMinute perMinute.
var Sign = sign

// PerMinute is perMinute.
const PerMinute = perMinute

// Send sends one webhook.
func Send(ctx context.Context, o Options) error {
	p := newPoster(o)
	defer p.close()
	return p.send(ctx, "msg_1", []byte("{}"))
}
