def test_an_empty_invoice_is_free(evaluate):
    assert evaluate("Invoice().total()") == 0


def test_quantity_counts(evaluate):
    assert evaluate("invoice = Invoice()", "invoice.add('bolt', '0.40', 25)", "invoice.net()") == 1000


def test_tax_is_due_after_the_discount(evaluate):
    made = "invoice = Invoice(discount=10, tax=20)"
    assert evaluate(made, "invoice.add('lamp', '100.00')", "invoice.total()") == 10800
