package web

import (
	"context"
	"fmt"
	"time"

	"drawbridge/api"
	"drawbridge/bridge/words"
)

// daysFor is how long the page shows what the days saw before it adds up again.
const daysFor = time.Minute

// plot is a bar chart of the days.
type plot struct {
	Key, Title, Sum string
	Bars            []bar
	// Most is the value of the highest bar, and First and Last are the days at the edges.
	Most, First, Last string
}

// bar is a day, in the units of the drawing. Extra is a second value inside the bar; 0 for none.
type bar struct {
	X, Y, Height, ExtraY, Extra int
	// Says is the day with its numbers.
	Says string
}

// The size of a drawing, in its own units.
const (
	plotHeight = 120
	barWidth   = 20
)

func (p plot) names() (template, key string) { return "plot.html", p.Key }

// Width is that of the drawing.
func (p plot) Width() int { return barWidth * len(p.Bars) }

// useModel draws what the last 30 days saw.
func (p *Page) useModel(ctx context.Context, m *page, v view) error {
	m.Title, m.Sub, m.Live = "Use", "the last 30 days, in UTC", "place="+placeUse
	seen, _, err := v.looks.days.get(p.o.Now(), daysFor, func() (api.UseOverTime, error) { return p.o.API.Use(ctx) })
	if err != nil {
		return err
	}
	all := seen.Days
	var sum api.DayUse
	for _, d := range all {
		sum.Turns, sum.Launches, sum.Untold = sum.Turns+d.Turns, sum.Launches+d.Launches, sum.Untold+d.Untold
		sum.Tokens, sum.CostUSD = sum.Tokens+d.Tokens, sum.CostUSD+d.CostUSD
	}
	turns := plot{Key: "use-turns", Title: "Turns, with the launches by agents darker", Sum: began(sum)}
	turns.draw(all, func(d api.DayUse) (float64, float64, string) {
		return float64(d.Turns), float64(d.Launches), began(d)
	}, func(most float64) string { return fmt.Sprintf("%.0f", most) })
	tokens := plot{Key: "use-tokens", Title: "Tokens", Sum: fmt.Sprintf("%s tokens, $%.2f", short(sum.Tokens), sum.CostUSD)}
	if sum.Untold > 0 {
		tokens.Sum += fmt.Sprintf("; unknown for %s", words.Count(sum.Untold, "turn"))
	}
	tokens.draw(all, func(d api.DayUse) (float64, float64, string) {
		return float64(d.Tokens), 0, fmt.Sprintf("%d tokens, $%.2f", d.Tokens, d.CostUSD)
	}, func(most float64) string { return short(int64(most)) })
	m.Items = []keyed{turns, tokens}
	return nil
}

// draw makes the bars. of returns a day's value, the part of it that is drawn darker, and words.
func (p *plot) draw(all []api.DayUse, of func(api.DayUse) (value, part float64, says string), label func(most float64) string) {
	most := 0.0
	for _, d := range all {
		value, part, _ := of(d)
		most = max(most, value, part)
	}
	scale := func(value float64) int {
		if value <= 0 {
			return 0
		}
		return max(1, int(value/most*plotHeight))
	}
	for i, d := range all {
		value, part, says := of(d)
		p.Bars = append(p.Bars, bar{X: i * barWidth, Y: plotHeight - scale(value), Height: scale(value), ExtraY: plotHeight - scale(part), Extra: scale(part), Says: d.Day + ": " + says})
	}
	if len(all) > 0 {
		p.First, p.Last, p.Most = all[0].Day, all[len(all)-1].Day, label(most)
	}
}

// began says how many turns and launches began.
func began(d api.DayUse) string {
	if d.Launches == 1 {
		return words.Count(d.Turns, "turn") + ", 1 launch"
	}
	return fmt.Sprintf("%s, %d launches", words.Count(d.Turns, "turn"), d.Launches)
}

// short is a number in a few characters.
func short(n int64) string {
	switch {
	case n >= 9_950_000:
		return fmt.Sprintf("%.0f M", float64(n)/1e6)
	case n >= 999_500:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%.0f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
