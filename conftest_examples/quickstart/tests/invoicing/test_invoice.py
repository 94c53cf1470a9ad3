from invoicing.invoice import Invoice


def test_an_empty_invoice_is_free():
    assert Invoice().total() == 0


def test_quantity_counts():
    invoice = Invoice()
    invoice.add("bolt", "0.40", 25)
    assert invoice.net() == 1000


def test_tax_is_due_after_the_discount():
    invoice = Invoice(discount=10, tax=20)
    invoice.add("lamp", "100.00")
    assert invoice.total() == 10800
