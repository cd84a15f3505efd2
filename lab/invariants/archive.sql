-- Keeps the rows that Payonce deletes or overwrites, so that a whole run can be checked at its end: the row of each key
-- that was deleted or has begun a new generation, the timelines that were deleted with keys, the PSP's objects that
-- payments were executed through, and disputes that went back. Payonce itself does not use this schema.
CREATE SCHEMA lab;
CREATE TABLE lab.ended_keys (LIKE public.idempotency_keys, ended_by text NOT NULL, transaction xid8 NOT NULL);
CREATE TABLE lab.ended_events (LIKE public.idempotency_key_events, transaction xid8 NOT NULL);
CREATE INDEX ON lab.ended_keys (tenant_id, operation, key);

CREATE TABLE lab.remembered_objects (tenant_id text COLLATE "C", payment uuid, object_id text COLLATE "C",
    PRIMARY KEY (tenant_id, payment, object_id));

CREATE TABLE lab.reopened_disputes (LIKE public.disputes, became text NOT NULL);

CREATE FUNCTION lab.keep_dispute() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.reopened_disputes SELECT (OLD).*, NEW.status;
    RETURN NULL;
END $$;
CREATE FUNCTION lab.keep_object() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.remembered_objects VALUES (NEW.tenant_id, NEW.id, NEW.psp_object_id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE FUNCTION lab.keep_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.ended_keys SELECT (OLD).*, lower(TG_OP), pg_catalog.pg_current_xact_id();
    RETURN NULL;
END $$;
CREATE FUNCTION lab.keep_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.ended_events SELECT (OLD).*, pg_catalog.pg_current_xact_id();
    RETURN NULL;
END $$;

CREATE TRIGGER lab_keep_renewed AFTER UPDATE ON public.idempotency_keys FOR EACH ROW
    WHEN (OLD.status = 'expired' AND NEW.status = 'in_progress') EXECUTE FUNCTION lab.keep_key();
CREATE TRIGGER lab_keep_deleted AFTER DELETE ON public.idempotency_keys FOR EACH ROW EXECUTE FUNCTION lab.keep_key();
CREATE TRIGGER lab_keep_deleted AFTER DELETE ON public.idempotency_key_events
    FOR EACH ROW EXECUTE FUNCTION lab.keep_event();
CREATE TRIGGER lab_keep_object AFTER UPDATE OF psp_object_id ON public.payments FOR EACH ROW
    WHEN (NEW.psp_object_id IS NOT NULL) EXECUTE FUNCTION lab.keep_object();
CREATE TRIGGER lab_keep_reopened AFTER UPDATE ON public.disputes FOR EACH ROW
    WHEN (OLD.status IN ('won', 'closed', 'lost') AND NEW.status NOT IN ('won', 'closed', 'lost'))
    EXECUTE FUNCTION lab.keep_dispute();
