package webhooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// ownerFrom returns the owner of the webhooks that a call acts on.
func ownerFrom(p orgs.Principal) owner {
	if p.Space.ID() != 0 {
		return owner{workspaceID: p.Space.ID()}
	}
	return owner{userID: p.Space.Personal}
}

// find returns a webhook that a call acts on, or fault.NotFound.
func (s *Service) find(ctx context.Context, id string) (hook, error) {
	h, err := s.store.hook(ctx, ownerFrom(orgs.PrincipalFrom(ctx)), id)
	if err != nil {
		return h, fmt.Errorf("reading webhook %s: %w", fault.Quote(id), err)
	}
	return h, nil
}

// ListWebhooks returns the webhooks of a workspace, without their secrets.
func (s *Service) ListWebhooks(ctx context.Context, _ *platformv1.ListWebhooksRequest) (*platformv1.ListWebhooksResponse, error) {
	hooks, err := s.store.hooksOf(ctx, ownerFrom(orgs.PrincipalFrom(ctx)))
	if err != nil {
		return nil, fmt.Errorf("reading webhooks: %w", err)
	}
	resp := &platformv1.ListWebhooksResponse{}
	for _, h := range hooks {
		resp.Webhooks = append(resp.Webhooks, h.toProto())
	}
	return resp, nil
}

// CreateWebhook creates a webhook with a new secret.
func (s *Service) CreateWebhook(ctx context.Context, req *platformv1.CreateWebhookRequest) (*platformv1.CreateWebhookResponse, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	p, now := orgs.PrincipalFrom(ctx), s.deps.Now()
	h := hook{id: api.NewTextID(22), owner: ownerFrom(p), createdBy: p.User.ID, creator: p.User.Name, created: now, updated: now}
	var err error
	if h.url, err = parseURL(req.GetWebhook().GetUrl()); err != nil {
		return nil, err
	}
	if h.events, err = parseEvents(req.GetWebhook().GetEvents()); err != nil {
		return nil, err
	}
	key := newSecret()
	if h.envelope, err = seal(s.deps.Keys, h.id, key); err != nil {
		return nil, err
	}
	created, err := s.store.insertHook(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("writing a webhook: %w", err)
	}
	if !created {
		return nil, fault.NotFound.Newf("The workspace was deleted")
	}
	return &platformv1.CreateWebhookResponse{Webhook: h.toProto(), Secret: key.String()}, nil
}

// DescribeWebhook returns a webhook, without its secret.
func (s *Service) DescribeWebhook(ctx context.Context, req *platformv1.DescribeWebhookRequest) (*platformv1.DescribeWebhookResponse, error) {
	h, err := s.find(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	return &platformv1.DescribeWebhookResponse{Webhook: h.toProto()}, nil
}

// UpdateWebhook changes the members that the request sets. It returns fault.Conflict if the
// webhook was changed concurrently.
func (s *Service) UpdateWebhook(ctx context.Context, req *platformv1.UpdateWebhookRequest) (*platformv1.UpdateWebhookResponse, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	old, err := s.find(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	h, resp := old, &platformv1.UpdateWebhookResponse{}
	// The update is conditional on the old time, so that each update must change it.
	if h.updated = s.deps.Now(); !h.updated.After(old.updated) {
		h.updated = old.updated.Add(time.Microsecond)
	}
	if err := h.apply(req.GetChange()); err != nil {
		return nil, err
	}
	if req.GetChange().GetNewSecret() {
		valid, err := open(s.deps.Keys, old, s.deps.Now())
		if err != nil {
			return nil, err
		}
		secrets := renewed(valid, s.deps.Now())
		if h.envelope, err = seal(s.deps.Keys, h.id, secrets...); err != nil {
			return nil, err
		}
		resp.Secret = api.StringValue(secrets[0].String())
	}
	done, err := s.store.updateHook(ctx, old, h)
	if err != nil {
		return nil, fmt.Errorf("writing webhook %s: %w", h.id, err)
	}
	if !done {
		return nil, fault.Conflict.Newf("Another request has just changed this webhook; try again").WithCode(fault.ObjectChanged)
	}
	if h.url != old.url || h.disabled.IsZero() && !old.disabled.IsZero() {
		h.failing = time.Time{}
		s.wake()
	}
	resp.Webhook = h.toProto()
	return resp, nil
}

// apply changes the members that a request sets, except the secret.
func (h *hook) apply(c *platformv1.WebhookChange) (err error) {
	if c.Url != nil {
		if h.url, err = parseURL(c.GetUrl()); err != nil {
			return err
		}
	}
	if len(c.GetEvents()) > 0 {
		if h.events, err = parseEvents(c.GetEvents()); err != nil {
			return err
		}
	}
	if c.Disabled == nil || c.GetDisabled() != h.disabled.IsZero() {
		return nil
	}
	h.disabled, h.disabledReason = time.Time{}, ""
	if c.GetDisabled() {
		h.disabled = h.updated
	}
	return nil
}

// DeleteWebhook deletes a webhook with its deliveries.
func (s *Service) DeleteWebhook(ctx context.Context, req *platformv1.DeleteWebhookRequest) (*platformv1.DeleteWebhookResponse, error) {
	h, err := s.find(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	if _, err := s.store.deleteHook(ctx, h); err != nil {
		return nil, fmt.Errorf("deleting webhook %s: %w", h.id, err)
	}
	return &platformv1.DeleteWebhookResponse{}, nil
}

// charge charges a message that a user requests.
func (s *Service) charge(ctx context.Context) error {
	if s.deps.Limiter == nil {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.WebhookRequested, Window: time.Hour}}
	_, err := s.deps.Limiter.Charge(ctx, "requested messages of webhooks", "user:"+strconv.FormatInt(orgs.PrincipalFrom(ctx).User.ID, 10), limit, 1)
	return err
}

// enabled returns an enabled webhook to which a user wants to send a message now.
func (s *Service) enabled(ctx context.Context, id string) (hook, error) {
	if err := s.check(); err != nil {
		return hook{}, err
	}
	h, err := s.find(ctx, id)
	if err != nil {
		return h, err
	}
	if !h.disabled.IsZero() {
		return h, fault.Conflict.Newf("The webhook is disabled; enable it first")
	}
	return h, nil
}

// TestWebhook queues an event of the type webhook.test.
func (s *Service) TestWebhook(ctx context.Context, req *platformv1.TestWebhookRequest) (*platformv1.TestWebhookResponse, error) {
	h, err := s.enabled(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	if err := s.charge(ctx); err != nil {
		return nil, err
	}
	d, err := s.message("test."+api.NewTextID(22), typeTest, h.id, s.deps.Now(), []byte("{}"))
	if err != nil {
		return nil, err
	}
	if d, err = s.store.insertDelivery(ctx, h.id, d, s.deps.Now()); errors.Is(err, errTooMany) {
		return nil, fault.Conflict.Newf("Too many messages of the webhook wait")
	}
	if err != nil {
		return nil, fmt.Errorf("writing a message to webhook %s: %w", h.id, err)
	}
	s.wake()
	return &platformv1.TestWebhookResponse{Delivery: d.toProto()}, nil
}

// ListDeliveries returns a page of the deliveries of a webhook.
func (s *Service) ListDeliveries(ctx context.Context, req *platformv1.ListDeliveriesRequest) (*platformv1.ListDeliveriesResponse, error) {
	limit, offset, err := paging.Read(req, 100, 1000)
	if err != nil {
		return nil, err
	}
	states := []string{"", statePending, stateDelivered, stateFailed}
	if !slices.Contains(states, req.GetStatus()) {
		return nil, fault.Invalid.Newf("status must be one of PENDING, DELIVERED, FAILED")
	}
	h, err := s.find(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.deliveries(ctx, h.id, req.GetStatus(), sqldb.Page{Limit: limit, Offset: offset})
	if err != nil {
		return nil, fmt.Errorf("reading the deliveries of webhook %s: %w", h.id, err)
	}
	resp := &platformv1.ListDeliveriesResponse{TotalSize: int32(total)}
	for _, d := range list {
		resp.Deliveries = append(resp.Deliveries, d.toProto())
	}
	return resp, nil
}

// DescribeDelivery returns a delivery with its message.
func (s *Service) DescribeDelivery(ctx context.Context, req *platformv1.DescribeDeliveryRequest) (*platformv1.DescribeDeliveryResponse, error) {
	h, err := s.find(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	d, err := s.store.delivery(ctx, h.id, req.GetDeliveryId())
	if err != nil {
		return nil, fmt.Errorf("reading delivery %s: %w", fault.Quote(req.GetDeliveryId()), err)
	}
	return &platformv1.DescribeDeliveryResponse{Delivery: d.toProto(), Body: d.body}, nil
}

// RepeatDelivery queues a delivery again that has ended. It returns fault.Conflict if it has not.
func (s *Service) RepeatDelivery(ctx context.Context, req *platformv1.RepeatDeliveryRequest) (*platformv1.RepeatDeliveryResponse, error) {
	h, err := s.enabled(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	d, err := s.store.delivery(ctx, h.id, req.GetDeliveryId())
	if err != nil {
		return nil, fmt.Errorf("reading delivery %s: %w", fault.Quote(req.GetDeliveryId()), err)
	}
	if d.state == statePending {
		return nil, fault.Conflict.Newf("The delivery has not ended yet")
	}
	if err := s.charge(ctx); err != nil {
		return nil, err
	}
	repeated, err := s.store.repeat(ctx, h.id, d.id, s.deps.Now())
	if err != nil {
		return nil, fmt.Errorf("writing delivery %s: %w", d.id, err)
	}
	if !repeated {
		return nil, fault.Conflict.Newf("The delivery has not ended yet")
	}
	s.wake()
	if d, err = s.store.delivery(ctx, h.id, d.id); err != nil {
		return nil, fmt.Errorf("reading delivery %s: %w", d.id, err)
	}
	return &platformv1.RepeatDeliveryResponse{Delivery: d.toProto()}, nil
}
